//! What the classes and the id of an element say about its part of the page.
//!
//! The evidence is that of Readability and trafilatura: the words by which those who make sites name their markup. They are
//! English wherever the text is in another language. A word counts as a whole, so `adfooter` says nothing, but `ad-footer`,
//! `ad_footer` and `adFooter` do.

use super::element::Part;
use super::name::TagName;
use crate::document::tag::Tag;

/// The elements whose classes are read. Each must be closed, so that its part ends where it does.
const CONTAINERS: [TagName; 9] = [
    TagName::from_bytes(b"div"),
    TagName::from_bytes(b"section"),
    TagName::from_bytes(b"table"),
    TagName::from_bytes(b"ul"),
    TagName::from_bytes(b"ol"),
    TagName::from_bytes(b"dl"),
    TagName::from_bytes(b"form"),
    TagName::from_bytes(b"figure"),
    TagName::from_bytes(b"details"),
];

const SECTION: TagName = TagName::from_bytes(b"section");

/// The attributes that are read. The id of a section is made from its heading: what it is about, not what it is for.
const ATTRIBUTES: [&[u8]; 3] = [b"id", b"class", b"itemprop"];

/// How many of them may hold the content of a page.
const N_CONTENT_CONTAINERS: usize = 3;

/// The longest word that says something.
const WORD_LEN_MAX: usize = 16;

/// What a word says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Says {
    Nothing,
    Content,
    Extra,
    Frame,
}

/// The part of the page that an element's classes, id and `itemprop` name, if any. Frame is stronger than content:
/// `article-footer` is a footer.
pub(super) fn named_part(name: TagName, tag: &str) -> Option<Part> {
    let at = CONTAINERS.iter().position(|container| *container == name)?;
    let attributes = if name == SECTION { &ATTRIBUTES[1..] } else { &ATTRIBUTES };
    let says = Tag::read(tag.as_bytes())
        .filter(|(attribute, _)| attributes.iter().any(|name| attribute.eq_ignore_ascii_case(name)))
        .flat_map(|(_, value)| value.split(u8::is_ascii_whitespace))
        .map(says)
        .max()?;
    match says {
        Says::Frame => Some(Part::NamedFrame),
        Says::Extra => Some(Part::NamedExtra),
        Says::Content => (at < N_CONTENT_CONTAINERS).then_some(Part::NamedContent),
        Says::Nothing => None,
    }
}

/// What a class says: the strongest of its words. One that begins with a word such as `with` speaks of something else.
fn says(class: &[u8]) -> Says {
    let mut strongest = Says::Nothing;
    let mut is_first = true;
    let mut rest = class;
    while let Some(begin) = rest.iter().position(u8::is_ascii_alphabetic) {
        rest = &rest[begin..];
        let is_inside = |pair: &[u8]| {
            pair[1].is_ascii_alphabetic() && !(pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
        };
        let len = 1 + rest.windows(2).take_while(|pair| is_inside(pair)).count();
        let (word, after) = rest.split_at(len);
        rest = after;
        let mut lower = [0; WORD_LEN_MAX];
        let Some(lower) = lower.get_mut(..len) else {
            is_first = false;
            continue;
        };
        lower.copy_from_slice(word);
        lower.make_ascii_lowercase();
        if is_first && speaks_of_another(lower) {
            return Says::Nothing;
        }
        is_first = false;
        strongest = strongest.max(word_says(lower));
    }
    strongest
}

/// `has-sidebar`, `category-comments`
fn speaks_of_another(word: &[u8]) -> bool {
    matches!(word, b"category" | b"has" | b"is" | b"no" | b"not" | b"tag" | b"with" | b"without")
}

fn word_says(word: &[u8]) -> Says {
    match word {
        b"breadcrumb" | b"breadcrumbs" | b"colophon" | b"copyright" | b"footer" => Says::Frame,
        // Navigation.
        b"menu" | b"nav" | b"navbar" | b"navi" | b"navigation" | b"pager" | b"pagination" | b"submenu" | b"toolbar"
        | b"topbar" | b"masthead" | b"foot"
        // What stands beside, and leads to other pages.
        | b"popular" | b"recent" | b"recommendations" | b"recommended" | b"related" | b"secondary" | b"sidebar"
        | b"teaser" | b"teasers" | b"textwidget" | b"trending" | b"widget" | b"widgets"
        // What others say, and what is to be sent.
        | b"comment" | b"commentform" | b"commentlist" | b"comments" | b"disqus" | b"login" | b"newsletter" | b"reply"
        | b"respond" | b"share" | b"sharedaddy" | b"sharing" | b"social" | b"subscribe" | b"subscription"
        // What is said about the content.
        | b"author" | b"byline" | b"credits" | b"meta" | b"tags"
        // What wants attention.
        | b"ad" | b"ads" | b"advert" | b"advertisement" | b"banner" | b"consent" | b"cookie" | b"cookies" | b"modal"
        | b"outbrain" | b"popup" | b"promo" | b"sponsor" | b"sponsored" | b"taboola" => Says::Extra,
        b"article" | b"articlebody" | b"body" | b"bodytext" | b"content" | b"entry" | b"hentry" | b"main" | b"post"
        | b"richtext" | b"story" | b"text" | b"wysiwyg" => Says::Content,
        _ => Says::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(tag: &str) -> Option<Part> {
        let (name, _) = TagName::read(tag.as_bytes());
        named_part(name, tag)
    }

    #[test]
    fn classes_name_parts() {
        for (tag, expected) in [
            ("div class=footer>", Some(Part::NamedFrame)),
            ("div class='a pageFooter'>", Some(Part::NamedFrame)),
            ("div class=adfooter>", None),
            ("div CLASS=\"Entry-Content\">", Some(Part::NamedContent)),
            ("div itemprop=articleBody>", Some(Part::NamedContent)),
            ("div id=comment-12>", Some(Part::NamedExtra)),
            ("div class=article-meta>", Some(Part::NamedExtra)),
            ("div class='with-sidebar content'>", Some(Part::NamedContent)),
            ("div class='tag-comments'>", None),
            ("ul class=entry>", None),
            ("ul class=nav>", Some(Part::NamedExtra)),
            ("p class=footer>", None),
            ("div>", None),
            ("div class>", None),
            ("div data-class=footer>", None),
            ("div class=averyveryverylongword-footer>", Some(Part::NamedFrame)),
        ] {
            assert_eq!(part(tag), expected, "{tag}");
        }
    }
}
