//! The text of HTML in blocks: what stands between two block-level tags, how much of it is linked, and in which part of
//! the page it stands.
//!
//! A third [`TokenSink`] around the one that extracts text. Like it, it keeps no tree: of the open elements it knows only
//! those that name a part of the page, so the cost of a tag does not depend on the page.

use super::element::{Element, Layout, Part};
use super::name::TagName;
use super::names::named_part;
use super::scanner::{self, ContentModel, TokenSink};
use super::text::TextExtractor;
use crate::document::tag::Tag;
use memchr::memmem;
use rustc_hash::FxHasher;
use std::hash::Hasher;
use std::ops::Range;

/// A block of a page's text that has at least one letter or digit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Its place in the text, in bytes.
    pub(super) range: Range<usize>,
    /// Letters and digits in it, see [`n_letters`].
    pub(super) n_letters: usize,
    /// Those of them that lead to other pages or belong to a form.
    pub(super) n_linked: usize,
    /// Those of them that belong to controls: those of forms, and links that run a script.
    pub(super) n_controlled: usize,
    /// Links and controls of forms in it, at most `u16::MAX`.
    pub(super) n_links: u16,
    /// Commas in it, at most `u16::MAX`.
    pub(super) n_commas: u16,
    /// Whether it links to a member of another page that has the name of the heading before it.
    pub(super) links_to_namesake: bool,
    /// The member of which it is the entry in a summary, if any.
    pub(super) entry: Option<MemberName>,
    pub(super) kind: BlockKind,
    pub(super) place: Place,
}

/// The hash of the name of a member: a function or method that the manual of a program describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MemberName(u32);

impl MemberName {
    pub(super) fn of(name: &[u8]) -> Self {
        let mut hasher = FxHasher::default();
        hasher.write(name);
        MemberName(hasher.finish() as u32)
    }
}

impl Block {
    pub(super) fn is_heading(&self) -> bool {
        matches!(self.kind, BlockKind::Heading(_))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    Text,
    /// A heading of this level, 1 to 6.
    Heading(u8),
    /// A row of a table.
    Row,
    /// The page's `<title>`.
    Title,
}

/// The part of a page in which a block stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Inside `main`.
    pub(super) is_main: bool,
    /// Inside `article`.
    is_article: bool,
    /// Inside of what surrounds the content: navigation, asides, the page's header and footer.
    pub(super) is_frame: bool,
    /// The innermost region around it.
    pub(super) region: RegionId,
}

/// An index into the regions of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RegionId(pub(super) u32);

/// An element that may hold the content of the page, or whose class says that it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    /// The next region around it, which comes before it. The page, region 0, is its own.
    pub(super) outer: RegionId,
    pub(super) kind: RegionKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegionKind {
    /// `main`, `article`, an element of such a class, or the page.
    Content,
    /// By its class no content, unless most of the text is in it.
    Extra,
    /// By its class no content.
    Frame,
}

/// An item of a list.
const ITEM: TagName = TagName::from_bytes(b"li");

/// Bytes of a title that are compared with each item of lists.
const TITLE_LEN_MAX: usize = 512;

/// Open parts that are distinguished; those deeper inside count as the innermost of these.
const PARTS_MAX: usize = 32;

/// Appends the text of `html` to `out`, as [`append_text`](super::append_text) does, and its blocks to `blocks`. `regions`
/// become those of the page.
pub(super) fn append_blocks(html: &str, out: &mut String, blocks: &mut Vec<Block>, regions: &mut Vec<Region>) {
    regions.clear();
    regions.push(Region { outer: RegionId(0), kind: RegionKind::Content });
    let begin = out.len();
    let text = TextExtractor::new(out);
    let mut extractor = BlockExtractor {
        html,
        text,
        blocks,
        regions,
        begin,
        kind: BlockKind::Text,
        title: begin..begin,
        n_linked: 0,
        n_links: 0,
        n_controlled: 0,
        open_link: None,
        heading: begin..begin,
        links_to_namesake: false,
        entry: None,
        open_entry: None,
        role: memmem::Finder::new(b"role"),
        parts: Vec::new(),
        place: Place::default(),
    };
    scanner::scan(html, ContentModel::Data, &mut extractor);
    extractor.end_block();
}

/// Counts letters and digits: exactly in ASCII; above, characters from U+00C0 on, those from U+3000 on thrice, since a
/// Chinese character says as much as a few letters.
pub(super) fn n_letters(text: &str) -> usize {
    let weight =
        |byte: &u8| u8::from(byte.is_ascii_alphanumeric() | (*byte >= 0xc3)) + if *byte >= 0xe3 { 2 } else { 0 };
    sum(text, weight)
}

/// The sum of what a text's bytes weigh, at most 3 each, many at once.
fn sum(text: &str, weight: impl Fn(&u8) -> u8) -> usize {
    const BYTES_AT_ONCE: usize = 64;
    let (chunks, rest) = text.as_bytes().as_chunks::<BYTES_AT_ONCE>();
    let of = |bytes: &[u8]| usize::from(bytes.iter().map(&weight).sum::<u8>());
    chunks.iter().map(|chunk| of(chunk)).sum::<usize>() + of(rest)
}

struct BlockExtractor<'h, 'o> {
    html: &'h str,
    text: TextExtractor<'o>,
    blocks: &'o mut Vec<Block>,
    regions: &'o mut Vec<Region>,
    /// Where the current block begins in the text.
    begin: usize,
    kind: BlockKind,
    /// Where in the text the page's title is, or its beginning.
    title: Range<usize>,
    n_linked: usize,
    n_links: usize,
    n_controlled: usize,
    open_link: Option<OpenLink>,
    /// Where in the text the last heading is, or its beginning.
    heading: Range<usize>,
    links_to_namesake: bool,
    entry: Option<MemberName>,
    /// An open link to a member: where in the text it begins, and the member's name.
    open_entry: Option<(usize, &'h [u8])>,
    /// Finds the name of the attribute.
    role: memmem::Finder<'static>,
    parts: Vec<OpenPart>,
    place: Place,
}

/// A link that leads away, or a control, that is open.
#[derive(Clone, Copy)]
struct OpenLink {
    /// Where in the text it begins, or goes on in the current block.
    from: usize,
    is_control: bool,
}

/// An open element that names a part of the page.
struct OpenPart {
    name: TagName,
    /// Open elements inside it of the same name.
    n_inside: usize,
    /// The place outside of it.
    outside: Place,
}

impl TokenSink for &mut BlockExtractor<'_, '_> {
    fn text(&mut self, text: &str) {
        self.text.text(text);
    }

    fn start_tag(&mut self, name: TagName, self_closing: bool, tag: Range<usize>) -> ContentModel {
        let element = Element::by_name(name);
        if !self.text.is_unseen() {
            self.begin_element(element, name, tag);
        }
        self.text.start_element(element, self_closing)
    }

    fn end_tag(&mut self, name: TagName) {
        let element = Element::by_name(name);
        if !self.text.is_unseen() {
            self.end_element(element, name);
        }
        self.text.end_element(element);
    }

    fn nul(&self) -> &'static str {
        self.text.nul()
    }

    fn in_foreign_content(&self) -> bool {
        self.text.in_foreign_content()
    }
}

impl<'h> BlockExtractor<'h, '_> {
    fn begin_element(&mut self, element: &Element, name: TagName, tag: Range<usize>) {
        match element.layout {
            Layout::Inline => {}
            Layout::Link => {
                self.end_linked();
                let html = self.html;
                if let Some(target) = Tag::read(html[tag].as_bytes()).attribute("href") {
                    self.begin_link(target);
                }
            }
            Layout::Control => {
                self.end_linked();
                self.open_link = Some(OpenLink { from: self.text.out.len(), is_control: true });
            }
            Layout::Block | Layout::Part(_) => {
                self.end_block();
                let part = if self.is_of_another(name, &self.html[tag.clone()]) {
                    Some(Part::NamedFrame)
                } else {
                    part_of(element, name, &self.html[tag], &self.role)
                };
                match part {
                    Some(part) => self.open_part(name, part),
                    None => self.enter(name),
                }
            }
            Layout::Heading(level) => {
                self.end_block();
                self.kind = BlockKind::Heading(level);
            }
            Layout::Row => {
                self.end_block();
                self.kind = BlockKind::Row;
            }
            Layout::Title => {
                self.end_block();
                if !self.text.is_foreign() {
                    self.kind = BlockKind::Title;
                }
            }
        }
    }

    fn end_element(&mut self, element: &Element, name: TagName) {
        match element.layout {
            Layout::Inline => {}
            Layout::Link | Layout::Control => {
                self.end_linked();
                self.end_entry();
            }
            Layout::Heading(_) | Layout::Row | Layout::Title => self.end_block(),
            Layout::Block | Layout::Part(_) => {
                self.end_block();
                self.leave(name, matches!(element.layout, Layout::Part(_)));
            }
        }
    }

    /// Whether an item of a list is a member of something that the page is not about: in the manuals of Scaladoc, those that
    /// a class inherits are told by `name="other.Class#member"` alone.
    fn is_of_another(&self, name: TagName, tag: &str) -> bool {
        if name != ITEM || memchr::memchr(b'#', tag.as_bytes()).is_none() {
            return false;
        }
        let member = Tag::read(tag.as_bytes()).attribute("name").unwrap_or_default();
        let Some(owner) = memchr::memchr(b'#', member).filter(|end| *end > 0).map(|end| &member[..end]) else {
            return false;
        };
        let title = &self.text.out.as_bytes()[self.title.clone()];
        !title.is_empty() && !title.split(u8::is_ascii_whitespace).any(|word| word == owner)
    }

    fn begin_link(&mut self, target: &'h [u8]) {
        let from = self.text.out.len();
        let is_away = leads_away(target);
        self.open_link = is_away.then(|| OpenLink { from, is_control: runs_script(target) });
        if let Some(member) = member(target) {
            let heading = &self.text.out.as_bytes()[self.heading.clone()];
            self.links_to_namesake |= is_away && member == heading;
            self.open_entry = Some((from, member));
        }
    }

    /// Ends a link to a member. In a summary its text is the member's name and nothing else.
    fn end_entry(&mut self) {
        if let Some((from, name)) = self.open_entry.take()
            && self.entry.is_none()
            && from >= self.begin
        {
            let text = self.text.out.as_bytes()[from..].trim_ascii();
            self.entry = (text == name).then(|| MemberName::of(name));
        }
    }

    fn end_linked(&mut self) {
        if let Some(link) = self.open_link.take() {
            let n_linked = n_letters(&self.text.out[link.from..]);
            self.n_linked += n_linked;
            self.n_controlled += if link.is_control { n_linked } else { 0 };
            self.n_links += usize::from(n_linked > 0);
        }
    }

    /// Ends a block. A link that is open goes on in the next one.
    fn end_block(&mut self) {
        let (begin, end) = (self.begin, self.text.out.len());
        let open_link = self.open_link;
        self.end_linked();
        self.open_link = open_link.map(|link| OpenLink { from: end, ..link });
        let n_controlled = std::mem::take(&mut self.n_controlled);
        self.begin = end;
        let n_linked = std::mem::take(&mut self.n_linked);
        let kind = std::mem::replace(&mut self.kind, BlockKind::Text);
        let n_links = std::mem::take(&mut self.n_links);
        let text = &self.text.out[begin..end];
        let n_letters = n_letters(text);
        let n_commas = sum(text, |byte| u8::from(*byte == b','));
        let links_to_namesake = std::mem::take(&mut self.links_to_namesake);
        let entry = self.entry.take();
        if matches!(kind, BlockKind::Heading(_)) {
            let n_spaces = text.len() - text.trim_ascii_start().len();
            self.heading = begin + n_spaces..begin + n_spaces + text.trim_ascii().len();
        }
        if kind == BlockKind::Title && self.title.is_empty() {
            self.title = begin..end.min(begin + TITLE_LEN_MAX);
        }
        if n_letters > 0 {
            self.blocks.push(Block {
                range: begin..end,
                n_letters,
                n_linked,
                n_links: few(n_links),
                n_commas: few(n_commas),
                n_controlled,
                links_to_namesake,
                entry,
                kind,
                place: self.place,
            });
        }
    }

    fn open_part(&mut self, name: TagName, part: Part) {
        if self.parts.len() == PARTS_MAX {
            return;
        }
        let outside = self.place;
        self.parts.push(OpenPart { name, n_inside: 0, outside });
        match part {
            Part::Main => {
                self.place.is_main = true;
                self.open_region(RegionKind::Content);
            }
            Part::Article => {
                self.place.is_article = true;
                self.open_region(RegionKind::Content);
            }
            Part::Edge => self.place.is_frame |= !outside.is_main && !outside.is_article,
            Part::Aside => self.place.is_frame = true,
            Part::NamedFrame => self.open_region(RegionKind::Frame),
            Part::NamedExtra => self.open_region(RegionKind::Extra),
            Part::NamedContent => self.open_region(RegionKind::Content),
        }
    }

    fn open_region(&mut self, kind: RegionKind) {
        // A page has fewer regions than bytes, and a page of 4 GiB is no page.
        let Ok(id) = u32::try_from(self.regions.len()) else { return };
        self.regions.push(Region { outer: self.place.region, kind });
        self.place.region = RegionId(id);
    }

    /// Enters an element that names no part.
    fn enter(&mut self, name: TagName) {
        if let Some(part) = self.parts.last_mut().filter(|part| part.name == name) {
            part.n_inside += 1;
        }
    }

    /// Leaves an element. One that always names a part also ends the parts inside it that were never closed.
    fn leave(&mut self, name: TagName, is_part: bool) {
        let open = if is_part {
            self.parts.iter().rposition(|part| part.name == name)
        } else {
            self.parts.len().checked_sub(1).filter(|last| self.parts[*last].name == name)
        };
        let Some(open) = open else { return };
        if self.parts[open].n_inside > 0 {
            self.parts[open].n_inside -= 1;
        } else {
            self.place = self.parts[open].outside;
            self.parts.truncate(open);
        }
    }
}

/// A count in few bytes: a hostile page has a block for every four bytes of its own.
fn few(n: usize) -> u16 {
    u16::try_from(n).unwrap_or(u16::MAX)
}

/// Whether the target of an `<a>` is another page or place, and not only a place on this page.
fn leads_away(target: &[u8]) -> bool {
    !target.trim_ascii_start().starts_with(b"#")
}

/// Whether the target of an `<a>` is a script.
fn runs_script(target: &[u8]) -> bool {
    const SCRIPT: &[u8] = b"javascript:";
    target.trim_ascii_start().get(..SCRIPT.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCRIPT))
}

/// The name of the member with parameters that the target of a link is, as Javadoc writes it: `other.html#name(int)`, or
/// `other.html#name-int-`, where `Z:Z` stands before an underscore.
fn member(target: &[u8]) -> Option<&[u8]> {
    let fragment = &target[memchr::memchr(b'#', target)? + 1..];
    let fragment = fragment.strip_prefix(b"Z:Z").unwrap_or(fragment);
    let end = memchr::memchr2(b'(', b'-', fragment).filter(|end| *end > 0)?;
    Some(&fragment[..end])
}

/// The part of the page that an element names, by its role or else by its name or its classes.
fn part_of(element: &Element, name: TagName, tag: &str, role: &memmem::Finder<'_>) -> Option<Part> {
    let by_name = if let Layout::Part(part) = element.layout { Some(part) } else { named_part(name, tag) };
    // Hardly any tag has a role, and hardly any role is in capitals.
    if tag.len() < "p role=x".len() || role.find(tag.as_bytes()).is_none() {
        return by_name;
    }
    let role = Tag::read(tag.as_bytes()).attribute("role");
    match role.map(|role| role.trim_ascii().to_ascii_lowercase()).as_deref() {
        Some(b"main") => Some(Part::Main),
        Some(b"article") => Some(Part::Article),
        Some(b"navigation" | b"complementary" | b"search" | b"banner" | b"contentinfo" | b"menu" | b"menubar") => {
            Some(Part::Aside)
        }
        _ => by_name,
    }
}
