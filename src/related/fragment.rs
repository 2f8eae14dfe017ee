//! What a page says: about itself, and about the URLs that it links to.

use super::rule::{RelatedRule, Titles};
use super::stop_words::StopWords;
use crate::document::{Mark, MarkKind, MarkedText, append_words, resolve};
use std::collections::BTreeMap;
use std::ops::Range;

/// Words with their frequencies.
pub type WordCounts = BTreeMap<String, u32>;

/// Words that a page says about a URL (section 2.2).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fragment {
    /// The URL.
    pub target: String,
    /// The words in their order, joined by single spaces, without stop words.
    pub words: String,
}

/// What a page says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageWords {
    /// Its own words and those of its title (section 2.1).
    pub content: WordCounts,
    /// What it says about URLs, in the order of the page.
    pub fragments: Vec<Fragment>,
}

/// Different words of a page that are kept, at most: the most frequent ones. Longer pages say no more about their subject.
const CONTENT_WORDS_MAX: usize = 512;

/// Bytes of a link's URL, at most. Longer ones are data or traps.
const TARGET_BYTES_MAX: usize = 2048;

/// Words of a link that count, at most. Where a whole page is one link, its words say little about the target.
const LINK_WORDS_MAX: usize = 64;

/// Reads what pages say, with buffers that it reuses.
#[derive(Clone, Debug)]
pub struct FragmentReader {
    window: usize,
    titles: Titles,
    stop_words: StopWords,
    per_page_max: usize,
    words: Words,
    title: Words,
    links: Vec<Link>,
}

/// A link and the places of its words.
#[derive(Clone, Debug)]
struct Link {
    href: String,
    words: Range<usize>,
}

impl FragmentReader {
    /// Creates a reader for a rule.
    pub fn new(rule: &RelatedRule) -> Self {
        FragmentReader {
            window: rule.window,
            titles: rule.titles,
            stop_words: rule.stop_words,
            per_page_max: rule.per_page_max,
            words: Words::default(),
            title: Words::default(),
            links: Vec::new(),
        }
    }

    /// Reads what the page at `url` says. Only links by HTTP to other URLs count; fragments of URLs are cut off.
    pub fn read(&mut self, url: &str, page: &MarkedText) -> PageWords {
        self.read_words(page);
        let base = page.base.as_deref().and_then(|base| resolve(url, base));
        let base = base.as_deref().unwrap_or(url);
        let own = url.split('#').next().unwrap_or(url);
        let mut fragments = Vec::new();
        if self.titles == Titles::Own {
            fragments.extend(self.fragment(own.to_string(), self.title.kept(0..self.title.len(), self.stop_words)));
        }
        let most = if self.per_page_max == 0 { usize::MAX } else { self.per_page_max };
        let targets = self.links.iter().filter_map(|Link { href, words }| {
            let target = resolve(base, href)?;
            (is_http(&target) && target.len() <= TARGET_BYTES_MAX && target != own).then_some((target, words))
        });
        for (target, words) in targets.take(most) {
            let from = words.start.saturating_sub(self.window);
            let to = (words.end.min(words.start + LINK_WORDS_MAX) + self.window).min(self.words.len());
            let mut said = self.words.kept(from..to, self.stop_words);
            if self.titles == Titles::Linking {
                said.extend(self.title.kept(0..self.title.len(), self.stop_words));
            }
            fragments.extend(self.fragment(target, said));
        }
        PageWords { content: self.content(), fragments }
    }

    fn fragment(&self, target: String, words: Vec<&str>) -> Option<Fragment> {
        (!words.is_empty()).then(|| Fragment { target, words: words.join(" ") })
    }

    fn content(&self) -> WordCounts {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for words in [&self.words, &self.title] {
            for word in words.kept(0..words.len(), self.stop_words) {
                *counts.entry(word).or_default() += 1;
            }
        }
        let mut counts: Vec<(&str, u32)> = counts.into_iter().collect();
        if counts.len() > CONTENT_WORDS_MAX {
            counts.sort_by(|(one, n_one), (other, n_other)| n_other.cmp(n_one).then(one.cmp(other)));
            counts.truncate(CONTENT_WORDS_MAX);
        }
        counts.into_iter().map(|(word, n)| (word.to_string(), n)).collect()
    }

    /// Splits the text at its marks, each of which ends a word.
    fn read_words(&mut self, page: &MarkedText) {
        self.words.clear();
        self.title.clear();
        self.links.clear();
        let (mut from, mut is_title) = (0, false);
        for Mark { at, kind } in &page.marks {
            let words = if is_title { &mut self.title } else { &mut self.words };
            words.append(&page.text[from..*at]);
            from = *at;
            let place = self.words.len();
            match kind {
                MarkKind::LinkBegins(href) => self.links.push(Link { href: href.clone(), words: place..place }),
                MarkKind::LinkEnds => self.links.iter_mut().last().into_iter().for_each(|link| link.words.end = place),
                MarkKind::TitleBegins => is_title = true,
                MarkKind::TitleEnds => is_title = false,
                MarkKind::Alt(alt) => self.words.append(alt),
            }
        }
        let words = if is_title { &mut self.title } else { &mut self.words };
        words.append(&page.text[from..]);
    }
}

fn is_http(url: &str) -> bool {
    let begins = |scheme: &str| url.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme));
    begins("http://") || begins("https://")
}

/// Words of a text in their order.
#[derive(Clone, Debug, Default)]
struct Words {
    text: String,
    places: Vec<Range<usize>>,
    canonical: String,
}

impl Words {
    fn clear(&mut self) {
        self.text.clear();
        self.places.clear();
    }

    fn len(&self) -> usize {
        self.places.len()
    }

    /// Appends the words of a text: those of the canonical form, cut at digits, which are left out. In scripts without
    /// spaces the characters that follow one another make words of two.
    fn append(&mut self, text: &str) {
        self.canonical.clear();
        append_words(text, &mut self.canonical);
        let canonical = std::mem::take(&mut self.canonical);
        let mut before: Option<&str> = None;
        for word in canonical.split([' ', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) {
            let alone = Some(word).filter(|word| is_alone(word));
            match (before, alone) {
                (Some(first), Some(second)) => self.push(&[first, second]),
                (_, None) if !word.is_empty() => self.push(&[word]),
                _ => {}
            }
            before = alone;
        }
        self.canonical = canonical;
    }

    fn push(&mut self, parts: &[&str]) {
        let from = self.text.len();
        parts.iter().for_each(|part| self.text.push_str(part));
        self.places.push(from..self.text.len());
    }

    /// The words at these places that are neither stop words nor one letter long.
    fn kept(&self, places: Range<usize>, stop_words: StopWords) -> Vec<&str> {
        let words = self.places[places].iter().map(|place| &self.text[place.clone()]);
        words.filter(|word| word.chars().nth(1).is_some() && !stop_words.contains(word)).collect()
    }
}

/// Whether a word is one character of a script that puts no spaces between words: all of their blocks lie above these of
/// alphabets, and Hangul, which has spaces, is written in longer words.
fn is_alone(word: &str) -> bool {
    let mut chars = word.chars();
    chars.next().is_some_and(|first| first >= '\u{e00}') && chars.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rule: &RelatedRule, html: &str) -> PageWords {
        let mut page = MarkedText::default();
        page.read_html(html);
        FragmentReader::new(rule).read("http://a/b/page.html#top", &page)
    }

    fn about<'w>(words: &'w PageWords, target: &str) -> Vec<&'w str> {
        words.fragments.iter().filter(|said| said.target == target).map(|said| said.words.as_str()).collect()
    }

    #[test]
    fn windows_are_counted_before_stop_words_go() {
        let rule = RelatedRule { window: 2, ..RelatedRule::default() };
        let html = "<title>Roses</title><p>alpha beta the <a href=c.html#x>gamma and delta</a> of epsilon zeta";
        let said = read(&rule, html);
        assert_eq!(about(&said, "http://a/b/c.html"), ["beta gamma delta epsilon"]);
        assert_eq!(about(&said, "http://a/b/page.html"), ["roses"]);
        let linking = RelatedRule { titles: Titles::Linking, ..rule };
        let said = read(&linking, html);
        assert_eq!(said.fragments.len(), 1);
        assert_eq!(about(&said, "http://a/b/c.html"), ["beta gamma delta epsilon roses"]);
        let content: Vec<_> = said.content.keys().map(String::as_str).collect();
        assert_eq!(content, ["alpha", "beta", "delta", "epsilon", "gamma", "roses", "zeta"]);
    }

    #[test]
    fn only_links_to_other_pages_count() {
        let rule = RelatedRule::default();
        let html = "<base href=/d/><a href=#top>self</a><a href=/b/page.html>self</a><a href=mailto:x@y>mail</a>\
                    <a href=javascript:go()>go</a><a href=>folder</a><a href='//Other/x y'>other</a><a href=e>rose</a>";
        let targets: Vec<_> = read(&rule, html).fragments.into_iter().map(|said| said.target).collect();
        assert_eq!(targets, ["http://a/d/", "http://a/d/", "http://Other/x y", "http://a/d/e"]);
        let one = RelatedRule { per_page_max: 1, ..rule };
        assert_eq!(read(&one, html).fragments.len(), 1);
    }

    #[test]
    fn marks_end_words_and_images_speak() {
        let said = read(&RelatedRule::default(), "rose<a href=c>bush<img alt='in bloom'></a>garden utf8 x86");
        assert_eq!(about(&said, "http://a/b/c"), ["rose bush bloom garden utf"]);
    }

    #[test]
    fn scripts_without_spaces_have_words_of_two_characters() {
        let said = read(&RelatedRule::default(), "東京都 rose ไทย 한국어 é");
        let content: Vec<_> = said.content.keys().map(String::as_str).collect();
        assert_eq!(content, ["rose", "ทย", "ไท", "京都", "東京", "한국어"]);
    }

    /// A page that is one link, or a link a word, costs no more than its words.
    #[test]
    fn long_links_are_cut() {
        let rule = RelatedRule { window: 0, ..RelatedRule::default() };
        let said = read(&rule, &format!("<a href=c>{}", "rose bush ".repeat(5000)));
        assert_eq!(said.fragments[0].words.split(' ').count(), LINK_WORDS_MAX);
        let said = read(&rule, &"<a href=c>rose</a>".repeat(5000));
        assert_eq!(said.fragments.len(), rule.per_page_max);
    }
}
