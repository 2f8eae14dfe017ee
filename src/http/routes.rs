//! Every route, once: the router follows this table, and tests compare the OpenAPI document with it.

use super::answer::Caching;
use super::audit_line::ChangeRequest;
use super::error::{HttpError, shortened};
use super::etag::mark_compressed;
use super::service::{Cost, Handler, Route, Service, count, protect};
use super::{compare, events, explain, operations, page, related, reuse, sweeps, text, v1};
use crate::ports::Snapshots;
use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use std::future::ready;
use std::sync::Arc;
use std::time::Instant;
use tokio::task::spawn_blocking;
use tower_http::compression::CompressionLayer;

fn get<V: Snapshots>(
    path: &'static str,
    parameters: &'static [&'static str],
    cost: Cost,
    answer: Handler<V>,
) -> Route<V> {
    let (method, caching) = (Method::GET, Caching::Revalidate);
    Route { method, path, parameters, cost, caching, answer, error: IntoResponse::into_response }
}

fn post<V: Snapshots>(
    path: &'static str,
    parameters: &'static [&'static str],
    cost: Cost,
    answer: Handler<V>,
) -> Route<V> {
    Route { method: Method::POST, caching: Caching::Never, ..get(path, parameters, cost, answer) }
}

/// A route whose answer changes with the store, and without any event.
fn compared<V: Snapshots>(route: Route<V>) -> Route<V> {
    Route { caching: Caching::Compare, ..route }
}

/// A route whose answer changes without the store.
fn live<V: Snapshots>(route: Route<V>) -> Route<V> {
    Route { caching: Caching::Never, ..route }
}

/// A route for people: errors are pages, and every page says how new it is.
fn for_people<V: Snapshots>(route: Route<V>) -> Route<V> {
    Route { error: page::error_page, ..live(route) }
}

/// A part of the pages.
fn asset<V: Snapshots>(path: &'static str, answer: Handler<V>) -> Route<V> {
    Route { caching: Caching::Asset, ..get(path, &[], Cost::Nothing, answer) }
}

/// All routes.
pub(super) fn routes<V: Snapshots>() -> Vec<Route<V>> {
    vec![
        get("/v1/url", &["url", "limit", "cursor"], Cost::LookUps, v1::url),
        get("/v1/cluster", &["of", "limit", "cursor"], Cost::Many, v1::cluster),
        get("/v1/lost", &["url", "limit"], Cost::LookUps, v1::lost),
        post("/v1/lost", &["limit"], Cost::Many, v1::lost_many),
        post("/v1/similar", &["limit"], Cost::LookUps, v1::similar),
        post("/v1/group", &[], Cost::Many, reuse::group),
        get("/v1/reuse", &["url", "threshold", "limit", "cursor"], Cost::Many, reuse::reuse_of_url),
        post("/v1/reuse", &["threshold", "limit", "cursor"], Cost::Many, reuse::reuse_of_body),
        compared(get("/v1/related", &["url", "limit", "copies"], Cost::Many, related::related_to_url)),
        compared(get("/v1/related/cluster", &["url", "limit"], Cost::Many, related::cluster_of_url)),
        post("/v1/related", &["limit", "copies"], Cost::Many, related::related_to_body),
        get("/v1/sweeps", &["limit", "cursor"], Cost::LookUps, sweeps::sweeps),
        post("/v1/sweeps/{name}/close", &[], Cost::Change, sweeps::close),
        get("/v1/changes", &["by"], Cost::WholeStore, sweeps::changes),
        get("/v1/compare", &["a", "a_sweep", "b", "b_sweep", "passages", "inputs"], Cost::Many, compare::compare),
        get("/v1/explain", &["a", "b"], Cost::Many, explain::explain),
        live(get("/v1/events", &["from", "type", "host", "cluster", "limit"], Cost::Events, events::page)),
        get("/v1/text", &["of", "sweep"], Cost::LookUps, text::text),
        get("/v1/stats", &[], Cost::Counts, v1::stats),
        get("/v1/clusters", &["limit", "cursor"], Cost::LookUps, v1::clusters),
        get("/v1/openapi.json", &[], Cost::Nothing, operations::openapi),
        live(get("/healthz", &[], Cost::Nothing, operations::health)),
        live(get("/readyz", &[], Cost::Nothing, operations::ready)),
        live(get("/metrics", &[], Cost::Nothing, operations::metrics)),
        for_people(get("/", &["url", "urls_from", "sweeps_from", "cursor", "format"], Cost::Many, page::home)),
        for_people(get(
            "/clusters",
            &["host", "sweep", "size", "kind", "sort", "cursor", "format"],
            Cost::Many,
            page::clusters,
        )),
        for_people(get("/reuse", &["url"], Cost::Many, page::reuse_of_url)),
        for_people(post("/reuse", &[], Cost::Many, page::reuse_of_text)),
        for_people(get("/compare", &["a", "a_sweep", "b", "b_sweep", "inputs"], Cost::Many, page::compare)),
        for_people(post("/compare", &[], Cost::LookUps, page::compare_texts)),
        for_people(get("/content", &["of", "sweep", "inputs"], Cost::Many, page::content_of_url)),
        for_people(post("/content", &[], Cost::LookUps, page::content_of_page)),
        for_people(get("/explain", &["a", "b"], Cost::Many, page::explain)),
        asset("/style.css", page::style),
        asset("/favicon.svg", page::favicon),
    ]
}

/// The router: the routes, and the errors for requests that match none.
pub(super) fn router<V: Snapshots>(service: Arc<Service<V>>) -> Router {
    let mut router = Router::new();
    for route in routes::<V>() {
        let service = Arc::clone(&service);
        let filter = if route.method == Method::POST { MethodFilter::POST } else { MethodFilter::GET };
        let path = route.path;
        let answer = move |request: Request| answer(Arc::clone(&service), route.clone(), request);
        router = router.route(path, on(filter, answer));
    }
    let refuse_with = |error: fn(&Request) -> HttpError| {
        let service = Arc::clone(&service);
        move |request: Request| {
            let refused = service.admission.check(&request, false).err();
            ready(unrouted(refused.unwrap_or_else(|| error(&request))))
        }
    };
    router
        .fallback(refuse_with(no_route))
        .method_not_allowed_fallback(refuse_with(no_method))
        .layer(CompressionLayer::new())
        .layer(map_response(async |response: Response| mark_compressed(response)))
}

/// Answers a request to a route. A request to change the store is logged before it is answered, whatever comes of it, also where
/// it is refused, or its client is gone before the change is done. Those that come too often are only counted: nobody may fill
/// the log.
async fn answer<V: Snapshots>(service: Arc<Service<V>>, route: Route<V>, request: Request) -> Response {
    if route.cost != Cost::Change {
        return answer_checked(service, route, request).await;
    }
    let (client, role) = (service.admission.client(&request), service.admission.access.role(request.headers()));
    let change = ChangeRequest::new(&request, client, role);
    let changing = tokio::spawn(async move {
        let response = answer_checked(service, route, request).await;
        let status = response.status();
        if status != StatusCode::TOO_MANY_REQUESTS {
            // The line may go to a disk.
            let _ = spawn_blocking(move || change.log(status)).await;
        }
        response
    });
    changing.await.unwrap_or_else(|_| unrouted(HttpError::failed("the server failed to answer; its log says why")))
}

async fn answer_checked<V: Snapshots>(service: Arc<Service<V>>, route: Route<V>, request: Request) -> Response {
    let begin = Instant::now();
    if let Err(error) = service.admission.check(&request, route.cost == Cost::Change) {
        // No page for a name that is not ours.
        if error.status == StatusCode::MISDIRECTED_REQUEST {
            return unrouted(error);
        }
        let mut response = (route.error)(error);
        protect(response.headers_mut());
        count(route.path, &response, begin);
        return response;
    }
    match route.cost {
        Cost::Events => events::answer(service, route, request).await,
        _ => service.answer(route, request).await,
    }
}

fn no_route(request: &Request) -> HttpError {
    let message = format!("nothing is at {}; /v1/openapi.json lists all paths", shortened(request.uri().path()));
    HttpError::new(StatusCode::NOT_FOUND, "no-route", message)
}

fn no_method(request: &Request) -> HttpError {
    let (path, method) = (request.uri().path(), shortened(request.method().as_str()));
    let message = format!("{path} does not take {method}; the allow header lists what it takes");
    HttpError::new(StatusCode::METHOD_NOT_ALLOWED, "no-method", message)
}

fn unrouted(error: HttpError) -> Response {
    let mut response = error.into_response();
    protect(response.headers_mut());
    count("none", &response, Instant::now());
    response
}

#[cfg(test)]
mod tests {
    use super::super::auth::is_open_path;
    use super::operations::OPENAPI;
    use super::*;
    use crate::store::Follower;
    use serde_json::Value;
    use std::collections::{BTreeMap, BTreeSet};

    fn described() -> BTreeMap<(String, String), BTreeSet<String>> {
        let document: Value = serde_json::from_str(OPENAPI).expect("JSON");
        let mut found = BTreeMap::new();
        for (path, methods) in document["paths"].as_object().expect("paths") {
            for (method, operation) in methods.as_object().expect("methods") {
                let parameters = operation["parameters"].as_array().expect("parameters").iter();
                let parameters = parameters.filter(|parameter| parameter["in"] == "query");
                let parameters = parameters.map(|parameter| parameter["name"].as_str().expect("a name").to_string());
                found.insert((method.to_uppercase(), path.clone()), parameters.collect());
            }
        }
        found
    }

    /// What is served is described, and what is described is served: methods, paths and parameters.
    #[test]
    fn the_openapi_document_is_of_these_routes() {
        let served = routes::<Follower>().into_iter().map(|route| {
            let parameters = route.parameters.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
            ((route.method.to_string(), route.path.to_string()), parameters)
        });
        let served: Vec<_> = served.collect();
        let n_served = served.len();
        let served: BTreeMap<_, _> = served.into_iter().collect();
        assert_eq!(served.len(), n_served, "a route is there twice");
        assert_eq!(served, described());
    }

    /// A route that takes a body or wants a token says so, and every reference leads somewhere.
    #[test]
    fn the_openapi_document_holds_together() {
        let document: Value = serde_json::from_str(OPENAPI).expect("JSON");
        for route in routes::<Follower>() {
            let method = route.method.as_str().to_lowercase();
            let operation = &document["paths"][route.path][&method];
            let has_body = route.method == Method::POST && route.cost != Cost::Change;
            assert_eq!(operation["requestBody"].is_object(), has_body, "{method} {}", route.path);
            assert_eq!(operation["security"].is_array(), route.cost == Cost::Change, "{method} {}", route.path);
            assert!(operation["responses"]["200"].is_object(), "{method} {}", route.path);
            for status in ["401", "429"] {
                let is_described = operation["responses"][status].is_object();
                assert_eq!(is_described, !is_open_path(route.path), "{method} {}: {status}", route.path);
            }
        }
        for part in OPENAPI.split("\"$ref\": \"#").skip(1) {
            let pointer = part.split('"').next().expect("an end");
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
    }
}
