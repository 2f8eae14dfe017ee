//! Copies a message out of librdkafka's buffers.

use crate::wire::{Message, MessageFault};
use rdkafka::message::Headers;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Copies a message; a value of more than `value_bytes_max` bytes is left out and recorded as a fault.
pub(super) fn to_owned_message<M: rdkafka::Message>(message: &M, value_bytes_max: usize) -> Message {
    let mut owned = Message {
        key: message.key().map(<[u8]>::to_vec),
        time_ms: message.timestamp().to_millis(),
        ..Message::default()
    };
    match message.headers().map_or_else(|| Some(Vec::new()), headers_of) {
        Some(headers) => owned.headers = headers,
        None => owned.fault = Some(MessageFault::HeaderName),
    }
    match message.payload() {
        Some(value) if value.len() > value_bytes_max => owned.fault = Some(MessageFault::TooLarge(value.len() as u64)),
        value => owned.value = value.map(<[u8]>::to_vec),
    }
    owned
}

/// Copies the headers; `None` if a name is not UTF-8: rdkafka panics on such a name, and any producer can send one.
fn headers_of<H: Headers>(headers: &H) -> Option<Vec<(String, Option<Vec<u8>>)>> {
    let owned =
        |headers: &H| headers.iter().map(|header| (header.key.to_string(), header.value.map(<[u8]>::to_vec))).collect();
    catch_unwind(AssertUnwindSafe(|| owned(headers))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdkafka::Timestamp;
    use rdkafka::message::{Header, OwnedHeaders, OwnedMessage};

    #[test]
    fn everything_is_copied_but_a_large_value() {
        let headers = [("a", Some("1")), ("b", None), ("a", Some("2"))]
            .into_iter()
            .fold(OwnedHeaders::new(), |headers, (key, value)| headers.insert(Header { key, value }));
        let time = Timestamp::CreateTime(1_500);
        let message = OwnedMessage::new(Some(b"ten bytes!".to_vec()), None, "t".into(), time, 0, 0, Some(headers));
        let owned = to_owned_message(&message, 10);
        let header = |name: &str, value: Option<&[u8]>| (name.to_string(), value.map(<[u8]>::to_vec));
        assert_eq!(owned.headers, [header("a", Some(b"1")), header("b", None), header("a", Some(b"2"))]);
        assert_eq!((owned.value.as_deref(), owned.time_ms, owned.fault), (Some(&b"ten bytes!"[..]), Some(1_500), None));
        let owned = to_owned_message(&message, 9);
        assert_eq!((owned.value, owned.fault), (None, Some(MessageFault::TooLarge(10))));
    }

    /// A header name that is not UTF-8 once made rdkafka panic, and would have done so after every restart.
    #[test]
    fn headers_that_make_rdkafka_panic_are_a_fault() {
        struct Hostile;
        impl Headers for Hostile {
            fn count(&self) -> usize {
                1
            }
            fn try_get(&self, _: usize) -> Option<Header<'_, &[u8]>> {
                panic!("as rdkafka does")
            }
        }
        assert_eq!(headers_of(&Hostile), None);
    }
}
