//! The bytes of a broker's message, kept as it came.

use super::message::{Message, MessageFault};
use crate::codec::{decode_array, decode_field, encode_field};

/// What is left out of a message, in one byte.
const WHOLE: u8 = 1;
const WITHOUT_VALUE: u8 = 2;
const WITHOUT_HEADERS: u8 = 3;
const BARE: u8 = 4;

impl Message {
    /// Appends key, value and time (8 bytes) as fields; what is left out, in one byte, with the length of a value that is;
    /// then names and values of the headers as fields. Numbers begin with the most significant byte.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_field(self.key.as_deref(), out);
        encode_field(self.value.as_deref(), out);
        encode_field(self.time_ms.map(i64::to_be_bytes).as_ref().map(<[u8; 8]>::as_slice), out);
        match self.fault {
            None => out.push(WHOLE),
            Some(MessageFault::TooLarge(n_bytes)) => {
                out.push(WITHOUT_VALUE);
                out.extend(n_bytes.to_be_bytes());
            }
            Some(MessageFault::HeaderName) => out.push(WITHOUT_HEADERS),
            Some(MessageFault::Bare) => out.push(BARE),
        }
        for (name, value) in &self.headers {
            encode_field(Some(name.as_bytes()), out);
            encode_field(value.as_deref(), out);
        }
    }

    /// Decodes a message that fills `bytes`; `None` where they are damaged.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        let owned = |field: Option<&[u8]>| field.map(<[u8]>::to_vec);
        let (key, value) = (owned(decode_field(bytes)?), owned(decode_field(bytes)?));
        let time_ms = match decode_field(bytes)? {
            None => None,
            Some(time) => Some(i64::from_be_bytes(time.try_into().ok()?)),
        };
        let fault = match decode_array(bytes)? {
            [WHOLE] => None,
            [WITHOUT_VALUE] => Some(MessageFault::TooLarge(u64::from_be_bytes(decode_array(bytes)?))),
            [WITHOUT_HEADERS] => Some(MessageFault::HeaderName),
            [BARE] => Some(MessageFault::Bare),
            _ => return None,
        };
        let mut headers = Vec::new();
        while !bytes.is_empty() {
            let name = String::from_utf8(decode_field(bytes)??.to_vec()).ok()?;
            headers.push((name, owned(decode_field(bytes)?)));
        }
        Some(Message { key, value, headers, time_ms, fault })
    }
}
