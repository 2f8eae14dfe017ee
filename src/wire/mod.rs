//! The bytes that other programs see: records in, events out. They are versioned; a change that could break a
//! reader makes a new version.

mod describe;
mod event;
mod event_filter;
mod fallback;
mod fields;
mod flat_json;
mod http_status;
mod json_page;
mod limits;
mod message;
mod message_bytes;
mod origin;
mod outgoing;
mod page_parts;
mod part;
mod place;
mod preset;
mod record;
mod rejection;
mod repair;
mod unescape;

pub use crate::history::MoveEvidence;
pub use describe::{Described, EventLog};
pub use event::{Event, EventBody, EventType, Subject, WIRE_VERSION};
pub use event_filter::{EventFilter, check_host};
pub use fallback::{Fallback, TimeFrom, UrlFrom, url_of_text};
pub use fields::{FieldMap, time_of_digits, time_of_text};
pub use http_status::StatusMeaning;
pub use json_page::parse_json_page;
pub use limits::Limits;
pub use message::{ContentDecoder, Message, MessageFault, MessageFormat};
pub use origin::Origin;
pub use outgoing::{Outgoing, PresentChange};
pub use part::Part;
pub use place::{place_names, read_value_at};
pub use preset::{Preset, field_names};
pub use record::{MappedRecord, Record, RecordLayout};
pub use rejection::{Reason, Rejection};
pub use repair::repaired;
