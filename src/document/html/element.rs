//! The HTML elements that affect text, and how.

use super::name::TagName;
use super::scanner::ContentModel;

/// How an element affects the text around and inside it.
#[derive(Debug)]
pub(super) struct Element {
    pub(super) name: TagName,
    /// Whether its tags separate words.
    pub(super) separates: bool,
    /// How to tokenize its content.
    pub(super) content: ContentModel,
    pub(super) role: ElementRole,
    /// Whether its start tag ends open SVG and MathML (WHATWG HTML, 13.2.6.5).
    pub(super) breaks_out: bool,
    /// What its tags mean for the page's blocks.
    pub(super) layout: Layout,
}

/// What an element's tags mean for the blocks of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Nothing: its text belongs to the block around it.
    Inline,
    /// They end a block.
    Block,
    /// They end a block, and the text between them is a heading of this level, 1 to 6.
    Heading(u8),
    /// They end a block, and the text between them is the page's title.
    Title,
    /// They end a block, and what is between them is a row of a table.
    Row,
    /// They end a block, and what is between them is a part of the page.
    Part(Part),
    /// The text between them is a link.
    Link,
    /// The text between them belongs to a form.
    Control,
}

/// A part of a page that its markup names: a landmark (WAI-ARIA 1.2, section 5.3.4), an element of that meaning, or one
/// with a class of that meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// `main`
    Main,
    /// `article`
    Article,
    /// `header` and `footer`, which belong to the page outside of `main` and `article`, and to these inside.
    Edge,
    /// `nav`, `aside`, and what is for searching.
    Aside,
    /// An element whose class names it as what ends or frames every page of a site.
    NamedFrame,
    /// An element whose class names it as what stands around the content, but may also name what is around both.
    NamedExtra,
    /// An element whose class names it as the content.
    NamedContent,
}

/// What else an element does to its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ElementRole {
    /// Nothing.
    Plain,
    /// Its text is invisible.
    Unseen,
    /// Its content is invisible markup, and it nests.
    Template,
    /// `svg` or `math`: its content is foreign content.
    Foreign,
    /// Inside foreign content, its content is HTML again.
    IntegrationPoint,
}

impl Element {
    /// Returns the element with this name; for most names, one without any effect.
    pub(super) fn by_name(name: TagName) -> &'static Self {
        let element = &ELEMENTS[usize::from(SLOTS[slot(name)])];
        if element.name == name { element } else { &ELEMENTS[0] }
    }

    const fn inline(name: &str) -> Self {
        let name = TagName::from_bytes(name.as_bytes());
        Self {
            name,
            separates: false,
            content: ContentModel::Data,
            role: ElementRole::Plain,
            breaks_out: false,
            layout: Layout::Inline,
        }
    }

    const fn block(name: &str) -> Self {
        Self { separates: true, layout: Layout::Block, ..Self::inline(name) }
    }

    /// A block-level element whose tags end no block: a row of a table is one block, and so is a term with its description.
    const fn joining(name: &str) -> Self {
        Self::block(name).layout(Layout::Inline)
    }

    const fn rcdata(name: &'static str) -> Self {
        Self { content: ContentModel::Rcdata(name), ..Self::block(name) }
    }

    const fn rawtext(name: &'static str) -> Self {
        Self { content: ContentModel::Rawtext(name), ..Self::inline(name) }
    }

    const fn role(self, role: ElementRole) -> Self {
        Self { role, ..self }
    }

    const fn layout(self, layout: Layout) -> Self {
        Self { layout, ..self }
    }

    const fn separating(self) -> Self {
        Self { separates: true, ..self }
    }

    const fn breaking_out(self) -> Self {
        Self { breaks_out: true, ..self }
    }
}

/// No two elements may share a slot; with this many slots such a hash function is easy to find.
const N_SLOTS: usize = 1024;

/// A slot holds an index into [`ELEMENTS`].
static SLOTS: [u8; N_SLOTS] = index();

const fn slot(name: TagName) -> usize {
    (name.hash() >> (64 - N_SLOTS.trailing_zeros())) as usize
}

const fn index() -> [u8; N_SLOTS] {
    let mut slots = [0; N_SLOTS];
    let mut at = 1;
    while at < ELEMENTS.len() {
        let slot = slot(ELEMENTS[at].name);
        assert!(slots[slot] == 0, "two elements in one slot: another multiplier in TagName::hash");
        slots[slot] = at as u8;
        at += 1;
    }
    slots
}

static ELEMENTS: [Element; 102] = [
    // The element for all other names.
    Element::inline(""),
    // Blocks, parts of lists and tables, line breaks, and form fields that contain text.
    Element::block("address"),
    Element::block("article").layout(Layout::Part(Part::Article)),
    Element::block("aside").layout(Layout::Part(Part::Aside)),
    Element::block("blockquote").breaking_out(),
    Element::block("body").breaking_out(),
    Element::joining("br").breaking_out(),
    Element::block("button").layout(Layout::Control),
    Element::block("caption"),
    Element::block("center").breaking_out(),
    Element::joining("col"),
    Element::joining("colgroup"),
    Element::block("datalist").layout(Layout::Control),
    Element::joining("dd").breaking_out(),
    Element::block("details"),
    Element::block("dialog"),
    Element::block("dir"),
    Element::block("div").breaking_out(),
    Element::block("dl").breaking_out(),
    Element::block("dt").breaking_out(),
    Element::block("fieldset"),
    Element::block("figcaption"),
    Element::block("figure"),
    Element::block("footer").layout(Layout::Part(Part::Edge)),
    Element::block("form"),
    Element::block("frameset"),
    Element::block("h1").layout(Layout::Heading(1)).breaking_out(),
    Element::block("h2").layout(Layout::Heading(2)).breaking_out(),
    Element::block("h3").layout(Layout::Heading(3)).breaking_out(),
    Element::block("h4").layout(Layout::Heading(4)).breaking_out(),
    Element::block("h5").layout(Layout::Heading(5)).breaking_out(),
    Element::block("h6").layout(Layout::Heading(6)).breaking_out(),
    Element::block("head").breaking_out(),
    Element::block("header").layout(Layout::Part(Part::Edge)),
    Element::block("hgroup"),
    Element::block("hr").breaking_out(),
    Element::block("html"),
    Element::block("legend"),
    Element::block("li").breaking_out(),
    Element::block("listing").breaking_out(),
    Element::block("main").layout(Layout::Part(Part::Main)),
    Element::block("menu").breaking_out(),
    Element::block("nav").layout(Layout::Part(Part::Aside)),
    Element::block("ol").breaking_out(),
    Element::block("optgroup"),
    Element::block("option"),
    Element::block("p").breaking_out(),
    Element::block("pre").breaking_out(),
    Element::block("search").layout(Layout::Part(Part::Aside)),
    Element::block("section"),
    Element::block("select").layout(Layout::Control),
    Element::block("summary"),
    Element::block("table").breaking_out(),
    Element::block("tbody"),
    Element::joining("td"),
    Element::block("tfoot"),
    Element::joining("th"),
    Element::block("thead"),
    Element::block("tr").layout(Layout::Row),
    Element::block("ul").breaking_out(),
    // Content that is not markup.
    Element::rcdata("textarea").layout(Layout::Control),
    Element::rcdata("title").role(ElementRole::IntegrationPoint).layout(Layout::Title),
    Element::rawtext("iframe").role(ElementRole::Unseen).separating(),
    Element::rawtext("noembed").role(ElementRole::Unseen),
    Element::rawtext("noframes").role(ElementRole::Unseen).separating(),
    Element::rawtext("noscript").role(ElementRole::Unseen).separating(),
    Element::rawtext("style").role(ElementRole::Unseen),
    Element::rawtext("xmp").separating(),
    Element { content: ContentModel::Script("script"), ..Element::inline("script").role(ElementRole::Unseen) },
    Element { content: ContentModel::Plaintext, ..Element::block("plaintext") },
    Element::inline("template").role(ElementRole::Template),
    // Foreign content, and what ends it.
    Element::inline("svg").role(ElementRole::Foreign),
    Element::inline("math").role(ElementRole::Foreign),
    Element::inline("foreignobject").role(ElementRole::IntegrationPoint),
    Element::inline("desc").role(ElementRole::IntegrationPoint),
    Element::inline("mi").role(ElementRole::IntegrationPoint),
    Element::inline("mn").role(ElementRole::IntegrationPoint),
    Element::inline("mo").role(ElementRole::IntegrationPoint),
    Element::inline("ms").role(ElementRole::IntegrationPoint),
    Element::inline("mtext").role(ElementRole::IntegrationPoint),
    Element::inline("a").layout(Layout::Link),
    Element::inline("label").layout(Layout::Control),
    Element::inline("b").breaking_out(),
    Element::inline("big").breaking_out(),
    Element::inline("code").breaking_out(),
    Element::inline("em").breaking_out(),
    Element::inline("embed").breaking_out(),
    Element::inline("i").breaking_out(),
    Element::inline("img").breaking_out(),
    Element::inline("meta").breaking_out(),
    Element::inline("nobr").breaking_out(),
    Element::inline("ruby").breaking_out(),
    Element::inline("s").breaking_out(),
    Element::inline("small").breaking_out(),
    Element::inline("span").breaking_out(),
    Element::inline("strike").breaking_out(),
    Element::inline("strong").breaking_out(),
    Element::inline("sub").breaking_out(),
    Element::inline("sup").breaking_out(),
    Element::inline("tt").breaking_out(),
    Element::inline("u").breaking_out(),
    Element::inline("var").breaking_out(),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_found_by_its_name() {
        for element in &ELEMENTS {
            assert!(std::ptr::eq(Element::by_name(element.name), element));
        }
    }

    #[test]
    fn other_names_do_nothing() {
        for name in ["q", "font", "x-p", "blockquotes", "a-very-long-custom-element"] {
            assert!(std::ptr::eq(Element::by_name(TagName::from_bytes(name.as_bytes())), &ELEMENTS[0]), "{name}");
        }
    }
}
