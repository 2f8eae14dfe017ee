//! The URLs of a build in memory, by id and back.

use crate::codec::{decode_bytes, decode_varint, encode_bytes, encode_varint};

/// URLs in one block, of which all but the first are written as their difference to the one before.
const BLOCK: usize = 16;

/// Ascending URLs in some 25 bytes each.
#[derive(Clone, Debug, Default)]
pub struct UrlTable {
    /// For each URL: how many bytes it shares with the one before in its block, and the others.
    bytes: Vec<u8>,
    /// Where each block begins.
    blocks: Vec<usize>,
    n: usize,
    last: String,
}

impl UrlTable {
    /// Adds a URL, which is larger than all before it.
    pub fn push(&mut self, url: &str) {
        if self.n.is_multiple_of(BLOCK) {
            self.blocks.push(self.bytes.len());
            self.last.clear();
        }
        let n_shared = url.bytes().zip(self.last.bytes()).take_while(|(ours, theirs)| ours == theirs).count();
        encode_varint(n_shared as u64, &mut self.bytes);
        encode_bytes(&url.as_bytes()[n_shared..], &mut self.bytes);
        self.last.clear();
        self.last.push_str(url);
        self.n += 1;
    }

    /// The number of URLs.
    pub fn len(&self) -> usize {
        self.n
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// The URL of an id, which is below [`len`](Self::len).
    pub fn url(&self, id: u32) -> String {
        let mut found = String::new();
        self.each_in_block(id as usize / BLOCK, |at, url| {
            if at == id as usize {
                found = String::from_utf8_lossy(url).into_owned();
            }
        });
        found
    }

    /// The id of a URL.
    pub fn id(&self, url: &str) -> Option<u32> {
        let first_of = |block: usize| self.url((block * BLOCK) as u32);
        let (mut from, mut to) = (0, self.blocks.len());
        while from < to {
            let middle = usize::midpoint(from, to);
            if first_of(middle).as_str() <= url {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        let mut found = None;
        self.each_in_block(from.checked_sub(1)?, |at, other| {
            if other == url.as_bytes() {
                found = Some(at as u32);
            }
        });
        found
    }

    fn each_in_block(&self, block: usize, mut each: impl FnMut(usize, &[u8])) {
        let (mut bytes, mut url) = (&self.bytes[self.blocks[block]..], Vec::new());
        for id in block * BLOCK..((block + 1) * BLOCK).min(self.n) {
            url.truncate(decode_varint(&mut bytes).unwrap_or_default() as usize);
            url.extend(decode_bytes(&mut bytes).unwrap_or_default());
            each(id, &url);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn urls_are_found_both_ways() {
        let urls: BTreeSet<String> = (0..1000).map(|n| format!("http://h{}.example/ä/{n}", n % 37)).collect();
        let mut table = UrlTable::default();
        assert_eq!((table.is_empty(), table.id("http://")), (true, None));
        urls.iter().for_each(|url| table.push(url));
        for (id, url) in urls.iter().enumerate() {
            assert_eq!((table.url(id as u32), table.id(url)), (url.clone(), Some(id as u32)));
            assert_eq!(table.id(&format!("{url}x")), None);
        }
        assert_eq!((table.len(), table.id("a"), table.id("z")), (1000, None, None));
    }
}
