//! Records of the input, as the first phase leaves them.

use super::fields::{decode_observation, encode_observation};
use crate::cluster::Relation;
use crate::codec::{decode_array, decode_string, decode_varint, encode_bytes, encode_varint};
use crate::document::Fingerprint;
use crate::extsort::Row;
use crate::sweep::Observation;
use crate::wire::Rejection;

/// A record of the input.
#[derive(Clone, Debug, PartialEq)]
pub struct PageRow {
    /// The position of the record's source in the manifest's list.
    pub source: u32,
    /// The record's partition.
    pub partition: i32,
    /// The record's offset.
    pub offset: i64,
    /// What the record is.
    pub outcome: Outcome,
}

/// What a record is.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A page.
    Page(Visit),
    /// A record that is no page.
    Rejected(Rejection),
}

/// A visit to a URL and what it found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The URL.
    pub url: String,
    /// The URL's fingerprint.
    pub key: Fingerprint,
    /// The fingerprint of the URL's host.
    pub host: u64,
    /// When, what and on which sweep.
    pub observation: Observation,
    /// How the content equals its document. [`Relation::New`] means that it brought the document, and `None` that the
    /// visit found no content.
    pub relation: Option<Relation>,
}

/// The relations by their number in a page's row.
const RELATIONS: [Relation; 5] =
    [Relation::Identical, Relation::Lexical, Relation::Shingle, Relation::Near, Relation::New];
const NO_RELATION: u8 = 5;
const REJECTED: u8 = 6;

impl Row for PageRow {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        encode_varint(u64::from(self.source), out);
        out.extend(self.partition.to_le_bytes());
        out.extend(self.offset.to_le_bytes());
        match &self.outcome {
            Outcome::Rejected(why) => {
                out.push(REJECTED);
                // Files have no gaps.
                why.encode(out);
            }
            Outcome::Page(visit) => {
                let known = RELATIONS.iter().position(|known| visit.relation == Some(*known));
                out.push(known.map_or(NO_RELATION, |at| at as u8));
                encode_bytes(visit.url.as_bytes(), out);
                out.extend(visit.key.0.to_le_bytes());
                out.extend(visit.host.to_le_bytes());
                encode_observation(&visit.observation, out);
            }
        }
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let source = u32::try_from(decode_varint(bytes)?).ok()?;
        let partition = i32::from_le_bytes(decode_array(bytes)?);
        let offset = i64::from_le_bytes(decode_array(bytes)?);
        let [kind] = decode_array(bytes)?;
        let outcome =
            if kind == REJECTED { Outcome::Rejected(Rejection::decode(bytes)?) } else { decode_visit(kind, bytes)? };
        Some(PageRow { source, partition, offset, outcome })
    }
}

fn decode_visit(kind: u8, bytes: &mut &[u8]) -> Option<Outcome> {
    let relation = match kind {
        NO_RELATION => None,
        kind => Some(*RELATIONS.get(usize::from(kind))?),
    };
    Some(Outcome::Page(Visit {
        relation,
        url: decode_string(bytes)?,
        key: Fingerprint(u128::from_le_bytes(decode_array(bytes)?)),
        host: u64::from_le_bytes(decode_array(bytes)?),
        observation: decode_observation(bytes)?,
    }))
}
