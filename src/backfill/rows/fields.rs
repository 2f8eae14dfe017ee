//! Fields that rows of several kinds have.

use crate::codec::{decode_array, decode_bytes, encode_bytes};
use crate::document::{DocumentId, FetchTime};
use crate::sweep::{Observation, Seen};

pub(super) fn encode_flag(flag: bool, out: &mut Vec<u8>) {
    out.push(u8::from(flag));
}

pub(super) fn decode_flag(bytes: &mut &[u8]) -> Option<bool> {
    match decode_array(bytes)? {
        [0] => Some(false),
        [1] => Some(true),
        _ => None,
    }
}

pub(super) fn encode_text(text: Option<&str>, out: &mut Vec<u8>) {
    encode_flag(text.is_some(), out);
    encode_bytes(text.unwrap_or_default().as_bytes(), out);
}

pub(in crate::backfill) fn decode_string(bytes: &mut &[u8]) -> Option<String> {
    String::from_utf8(decode_bytes(bytes)?.to_vec()).ok()
}

pub(super) fn decode_text(bytes: &mut &[u8]) -> Option<Option<String>> {
    let is_some = decode_flag(bytes)?;
    let text = decode_string(bytes)?;
    Some(is_some.then_some(text))
}

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
