//! Audit lines: which client asked to change the store, and what came of it. They are events of the log with the target
//! `audit`; the program also writes them to a file.

use super::auth::Role;
use super::client::X_FORWARDED_FOR;
use super::error::shortened;
use axum::extract::Request;
use axum::http::StatusCode;
use std::net::IpAddr;

/// A request to change the store.
pub(super) struct ChangeRequest {
    client: IpAddr,
    /// What the request says of its way, believed or not.
    forwarded_for: Option<String>,
    role: Role,
    /// The method and the path.
    request: String,
}

impl ChangeRequest {
    pub fn new(request: &Request, client: IpAddr, role: Role) -> Self {
        let forwarded_for = request.headers().get(X_FORWARDED_FOR).and_then(|value| value.to_str().ok());
        let forwarded_for = forwarded_for.map(shortened);
        let request = format!("{} {}", request.method(), shortened(request.uri().path()));
        ChangeRequest { client, forwarded_for, role, request }
    }

    /// Logs what came of the request.
    pub fn log(&self, status: StatusCode) {
        let outcome = match status {
            status if status.is_success() => "done",
            StatusCode::GATEWAY_TIMEOUT => "unfinished",
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::MISDIRECTED_REQUEST => "refused",
            _ => "failed",
        };
        let (client, role, status) = (self.client.to_string(), self.role.word(), status.as_u16());
        let (request, forwarded_for) = (&*self.request, self.forwarded_for.as_deref());
        tracing::info!(target: "audit", request, client, forwarded_for, role, outcome, status);
    }
}
