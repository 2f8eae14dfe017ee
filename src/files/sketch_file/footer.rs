//! What a sketch file says of itself.

use crate::document::{Fingerprint, Seed};
use crate::sketch::SketchRule;
use highway::{HighwayHash, HighwayHasher};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The format of columns and footer. Files of another one are refused.
pub(super) const FORMAT: u32 = 1;

/// The keys of the footer and of its hash in a file's metadata.
pub(super) const KEY: &str = "lookalike.sketches";
pub(super) const HASH_KEY: &str = "lookalike.sketches.hash";

/// Which input of how many, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InputNumber {
    /// The input.
    pub number: u32,
    /// All inputs.
    pub of: u32,
}

impl fmt::Display for InputNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for InputNumber {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((number, of)) if (1..=of).contains(&number) => Ok(InputNumber { number, of }),
            _ => Err("write NUMBER/OF, the number of the input and of how many, such as 3/64000"),
        }
    }
}

/// What a sketch file says of itself, beside its rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SketchFooter {
    pub(super) format: u32,
    /// The input's number among all inputs.
    pub input: InputNumber,
    /// The input's name, under which a store notes how far it is read.
    pub name: String,
    /// The input's size in bytes, where it was a file under its own name.
    pub n_bytes: Option<u64>,
    /// The version of the canonical form.
    pub canonical_version: u32,
    /// How documents are sketched.
    pub rule: SketchRule,
    /// All settings that change how records are read, as text.
    pub reading: String,
    /// Tells whether a seed is the one of the sketches, without telling the seed.
    pub seed_check: Fingerprint,
}

impl SketchFooter {
    /// Whether it differs from another one in nothing but the input's size.
    pub fn is_of_other_size(&self, other: &Self) -> bool {
        self.n_bytes != other.n_bytes && (SketchFooter { n_bytes: other.n_bytes, ..self.clone() }) == *other
    }

    /// The footer of an input's sketches.
    pub fn new(
        input: InputNumber,
        name: String,
        n_bytes: Option<u64>,
        (canonical_version, rule): (u32, SketchRule),
        reading: String,
        seed: &Seed,
    ) -> Self {
        let seed_check = seed_check(seed);
        SketchFooter { format: FORMAT, input, name, n_bytes, canonical_version, rule, reading, seed_check }
    }

    /// Whether sketches were made with this seed.
    pub fn is_of(&self, seed: &Seed) -> bool {
        self.seed_check == seed_check(seed)
    }

    /// The name of the file among those of all inputs.
    pub fn file_name(&self) -> String {
        format!("sketches-{:07}.parquet", self.input.number)
    }
}

/// A footer as it is stored: with a hash of everything before it. Parquet has no check of its own that is always written.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredFooter {
    #[serde(flatten)]
    pub footer: SketchFooter,
    pub rows: RowsHash,
}

/// The beginning of a file that holds all rows.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RowsHash {
    pub n_bytes: u64,
    pub hash: Fingerprint,
}

/// Hashes bytes that come in pieces.
#[derive(Default)]
pub(super) struct RowsHasher {
    hasher: HighwayHasher,
    n_bytes: u64,
}

impl RowsHasher {
    pub fn append(&mut self, bytes: &[u8]) {
        self.hasher.append(bytes);
        self.n_bytes += bytes.len() as u64;
    }

    pub fn finish(&self) -> RowsHash {
        let [low, high] = self.hasher.clone().finalize128();
        RowsHash { n_bytes: self.n_bytes, hash: Fingerprint::from_halves(high, low) }
    }
}

impl StoredFooter {
    /// The footer as text, and the hash of the text.
    pub fn encode(&self) -> serde_json::Result<[(&'static str, String); 2]> {
        let text = serde_json::to_string(self)?;
        let hash = text_hash(&text);
        Ok([(KEY, text), (HASH_KEY, hash)])
    }

    /// Reads a footer from the metadata of a file.
    ///
    /// # Errors
    /// Why it is none, for people.
    pub fn decode<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Result<Self, String> {
        let text = value(KEY).ok_or("another program wrote it")?;
        if value(HASH_KEY) != Some(&text_hash(text)) {
            return Err("its footer is damaged".into());
        }
        let format = serde_json::from_str::<FormatOnly>(text).map_or(0, |footer| footer.format);
        if format != FORMAT {
            return Err(format!("it has format {format}, and this program reads {FORMAT}"));
        }
        serde_json::from_str(text).map_err(|error| format!("its footer is damaged ({error})"))
    }
}

/// The beginning of every footer.
#[derive(Deserialize)]
struct FormatOnly {
    format: u32,
}

fn text_hash(text: &str) -> String {
    let mut hasher = RowsHasher::default();
    hasher.append(text.as_bytes());
    format!("{:032x}", hasher.finish().hash.0)
}

fn seed_check(seed: &Seed) -> Fingerprint {
    seed.fingerprint("sketch file", &[])
}
