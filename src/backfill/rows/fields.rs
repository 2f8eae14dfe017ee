//! Fields that rows of several kinds have.

use crate::codec::{decode_array, decode_string, decode_text, encode_bytes, encode_text};
use crate::document::{DocumentId, FetchTime};
use crate::sweep::{Observation, Seen};

pub(super) fn encode_observation(observation: &Observation, out: &mut Vec<u8>) {
    out.extend(observation.fetched_at.0.to_le_bytes());
    encode_text(observation.sweep.as_deref(), out);
    match &observation.seen {
        Seen::Lost => out.push(0),
        Seen::Gone => out.push(1),
        Seen::Redirect(target) => {
            out.push(2);
            encode_bytes(target.as_bytes(), out);
        }
        Seen::Document(document) => {
            out.push(3);
            out.extend(document.0.to_le_bytes());
        }
    }
}

pub(super) fn decode_observation(bytes: &mut &[u8]) -> Option<Observation> {
    let fetched_at = FetchTime(i64::from_le_bytes(decode_array(bytes)?));
    let sweep = decode_text(bytes)?;
    let seen = match decode_array(bytes)? {
        [0] => Seen::Lost,
        [1] => Seen::Gone,
        [2] => Seen::Redirect(decode_string(bytes)?),
        [3] => Seen::Document(DocumentId(u32::from_le_bytes(decode_array(bytes)?))),
        _ => return None,
    };
    Some(Observation { fetched_at, seen, sweep })
}
