//! HTML to text with html5gum's tokenizer, the predecessor of the scanner, for comparison.

use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};
use std::convert::Infallible;

/// Appends the text of `html` to `out`, with a space for each block-level tag. Character references are decoded.
/// Scripts, styles, comments and attributes are left out; the title stays.
pub fn append_text(html: &str, out: &mut String) {
    let mut hidden = Hidden::default();
    let callback = |event: CallbackEvent<'_>, _: Span<()>| -> Option<Infallible> {
        match event {
            CallbackEvent::OpenStartTag { name } => {
                hidden.open(name);
                separate(name, out);
            }
            CallbackEvent::EndTag { name } => {
                hidden.close(name);
                separate(name, out);
            }
            CallbackEvent::String { value } if !hidden.any() => out.push_str(&String::from_utf8_lossy(value)),
            _ => {}
        }
        None
    };
    let mut emitter = CallbackEmitter::new(callback);
    emitter.naively_switch_states(true);
    // The callback handles everything, so the tokenizer yields nothing.
    let n_yielded = Tokenizer::new_with_emitter(html, emitter).count();
    debug_assert_eq!(n_yielded, 0);
}

fn separate(name: &[u8], out: &mut String) {
    if separates_words(name) && !out.ends_with(' ') {
        out.push(' ');
    }
}

/// The open elements whose text is invisible.
#[derive(Default)]
struct Hidden {
    /// The open element with raw text; only its own end tag can follow.
    raw: Option<&'static [u8]>,
    /// How many templates are open; they nest.
    n_templates: usize,
}

/// Elements that the tokenizer reads as raw text and that are invisible.
const RAW: [&[u8]; 6] = [b"script", b"style", b"noscript", b"iframe", b"noembed", b"noframes"];

impl Hidden {
    fn open(&mut self, name: &[u8]) {
        if name == b"template" {
            self.n_templates += 1;
        } else if self.raw.is_none() {
            self.raw = RAW.into_iter().find(|raw| *raw == name);
        }
    }

    fn close(&mut self, name: &[u8]) {
        if name == b"template" {
            self.n_templates = self.n_templates.saturating_sub(1);
        } else if self.raw == Some(name) {
            self.raw = None;
        }
    }

    fn any(&self) -> bool {
        self.raw.is_some() || self.n_templates > 0
    }
}

/// Whether a tag with this name separates words: block-level elements, parts of tables and lists, `br`, and form
/// fields with text of their own.
fn separates_words(name: &[u8]) -> bool {
    matches!(
        name,
        b"address"
            | b"article"
            | b"aside"
            | b"blockquote"
            | b"body"
            | b"br"
            | b"button"
            | b"caption"
            | b"center"
            | b"col"
            | b"colgroup"
            | b"datalist"
            | b"dd"
            | b"details"
            | b"dialog"
            | b"dir"
            | b"div"
            | b"dl"
            | b"dt"
            | b"fieldset"
            | b"figcaption"
            | b"figure"
            | b"footer"
            | b"form"
            | b"frameset"
            | b"h1"
            | b"h2"
            | b"h3"
            | b"h4"
            | b"h5"
            | b"h6"
            | b"head"
            | b"header"
            | b"hgroup"
            | b"hr"
            | b"html"
            | b"iframe"
            | b"legend"
            | b"li"
            | b"listing"
            | b"main"
            | b"menu"
            | b"nav"
            | b"noframes"
            | b"noscript"
            | b"ol"
            | b"optgroup"
            | b"option"
            | b"p"
            | b"plaintext"
            | b"pre"
            | b"search"
            | b"section"
            | b"select"
            | b"summary"
            | b"table"
            | b"tbody"
            | b"td"
            | b"textarea"
            | b"tfoot"
            | b"th"
            | b"thead"
            | b"title"
            | b"tr"
            | b"ul"
            | b"xmp"
    )
}
