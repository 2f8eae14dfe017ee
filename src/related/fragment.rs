//! What a page says: about itself, and about the URLs that it links to.

use super::rule::{RelatedRule, Titles};
use super::stop_words::{ShortWord, StopWords};
use crate::document::{
    BLOCK_BYTES, BaseUrl, Mark, MarkKind, MarkedText, alphabetic, append_words, ascii_prefix, reference_of_href,
    resolve,
};
use std::borrow::Cow;
use std::ops::Range;

/// A page's words without stop words, and where it speaks of URLs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageText {
    /// The words joined by single spaces.
    pub text: String,
    /// The words of the title in the same form.
    pub title: String,
    /// The passages, in the order of the page.
    pub passages: Vec<Passage>,
}

/// A place at which a page speaks of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The URL.
    pub target: String,
    /// Bytes of the text: whole words.
    pub text: Range<usize>,
    /// Whether the words of the title follow.
    pub with_title: bool,
}

impl PageText {
    /// The words of a passage, joined by single spaces.
    pub fn words(&self, passage: &Passage) -> Cow<'_, str> {
        let text = &self.text[passage.text.clone()];
        match (text, self.title.as_str()) {
            (text, "") => Cow::Borrowed(text),
            (text, _) if !passage.with_title => Cow::Borrowed(text),
            ("", title) => Cow::Borrowed(title),
            (text, title) => Cow::Owned([text, " ", title].concat()),
        }
    }

    /// The page's own words, each as often as it occurs.
    pub fn content(&self) -> impl Iterator<Item = &str> {
        self.text.split(' ').chain(self.title.split(' ')).filter(|word| !word.is_empty())
    }
}

/// Words of a page that are read, at most, stop words not counted. What a page is about shows long before. Where the rule
/// sets no limit to the links of a page, all of its words are read: an index or a change log has links to its end.
const WORDS_MAX: usize = 8192;

/// Words of a title that count, at most, stop words not counted: each link of a page may repeat them.
const TITLE_WORDS_MAX: usize = 64;

/// Bytes of a link's URL, at most. Longer ones are data or traps.
const TARGET_BYTES_MAX: usize = 2048;

/// Words of a link that count, at most. Where a whole page is one link, its words say little about the target.
const LINK_WORDS_MAX: usize = 64;

/// Shorter ASCII is read with what stands around it.
const ASCII_MIN: usize = 32;

/// Reads what pages say, with buffers that it reuses.
#[derive(Clone, Debug)]
pub struct FragmentReader {
    window: usize,
    titles: Titles,
    per_page_max: usize,
    words: Words,
    title: Words,
    links: Vec<Link>,
}

/// A link, by the number of the mark at which it begins, and the places of its words.
#[derive(Clone, Debug)]
struct Link {
    mark: usize,
    words: Range<usize>,
}

impl FragmentReader {
    /// Creates a reader for a rule.
    pub fn new(rule: &RelatedRule) -> Self {
        let (words_max, per_page_max) = match rule.per_page_max {
            0 => (usize::MAX, usize::MAX),
            most => (WORDS_MAX, most),
        };
        FragmentReader {
            window: rule.window,
            titles: rule.titles,
            per_page_max,
            words: Words::new(rule.stop_words, words_max),
            title: Words::new(rule.stop_words, TITLE_WORDS_MAX),
            links: Vec::new(),
        }
    }

    /// Reads the words of the page at `url`, and where it speaks of others. Only links by HTTP to other URLs count;
    /// fragments of URLs are cut off.
    pub fn read(&mut self, url: &str, page: &MarkedText) -> PageText {
        self.read_words(page);
        let base = page.base.as_deref().and_then(|base| resolve(url, &reference_of_href(base)));
        let base = BaseUrl::new(base.as_deref().unwrap_or(url));
        let own = url.split('#').next().unwrap_or(url);
        let with_title = self.titles == Titles::Linking;
        let mut passages = Vec::new();
        if !with_title && !self.title.text.is_empty() {
            passages.push(Passage { target: own.to_string(), text: 0..0, with_title: true });
        }
        let targets = self.links.iter().filter_map(|Link { mark, words }| {
            let is_beyond = self.words.is_full() && words.start == self.words.n_words();
            let MarkKind::LinkBegins(href) = &page.marks[*mark].kind else { return None };
            let target = if is_beyond { None } else { base.resolve(&reference_of_href(href)) }?;
            (is_http(&target) && target.len() <= TARGET_BYTES_MAX && target != own).then_some((target, words))
        });
        for (target, words) in targets.take(self.per_page_max) {
            let from = words.start.saturating_sub(self.window);
            let to = (words.end.min(words.start + LINK_WORDS_MAX) + self.window).min(self.words.n_words());
            let text = self.words.kept(from..to);
            if !text.is_empty() || (with_title && !self.title.text.is_empty()) {
                passages.push(Passage { target, text, with_title });
            }
        }
        PageText { text: self.words.to_text(), title: self.title.to_text(), passages }
    }

    /// Splits the text at its marks, each of which ends a word.
    fn read_words(&mut self, page: &MarkedText) {
        self.words.clear();
        self.title.clear();
        self.links.clear();
        let (mut from, mut is_title) = (0, false);
        for (mark, Mark { at, kind }) in page.marks.iter().enumerate() {
            let words = if is_title { &mut self.title } else { &mut self.words };
            words.append(&page.text, from..*at);
            from = *at;
            let place = self.words.n_words();
            match kind {
                MarkKind::LinkBegins(_) => self.links.push(Link { mark, words: place..place }),
                MarkKind::LinkEnds => self.links.iter_mut().last().into_iter().for_each(|link| link.words.end = place),
                MarkKind::TitleBegins => is_title = true,
                MarkKind::TitleEnds => is_title = false,
                MarkKind::Alt(alt) => self.words.append(alt, 0..alt.len()),
            }
        }
        let words = if is_title { &mut self.title } else { &mut self.words };
        words.append(&page.text, from..page.text.len());
    }
}

fn is_http(url: &str) -> bool {
    let begins = |scheme: &str| url.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme));
    begins("http://") || begins("https://")
}

/// Words of a text in their order. Of stop words only the places are kept, so that they count in windows.
#[derive(Clone, Debug)]
struct Words {
    stop_words: StopWords,
    /// The other words, each with a space behind it.
    text: Vec<u8>,
    /// Bytes of `text` before each word, and at last before none.
    starts: Vec<usize>,
    n_kept: usize,
    /// The most that are kept.
    n_max: usize,
    canonical: String,
}

impl Words {
    fn new(stop_words: StopWords, n_max: usize) -> Self {
        Words { stop_words, text: Vec::new(), starts: vec![0], n_kept: 0, n_max, canonical: String::new() }
    }

    fn clear(&mut self) {
        self.text.clear();
        self.starts.truncate(1);
        self.n_kept = 0;
    }

    /// Whether no more words are read.
    fn is_full(&self) -> bool {
        self.n_kept >= self.n_max
    }

    fn n_words(&self) -> usize {
        self.starts.len() - 1
    }

    /// Appends the words at a place of a text: those of the canonical form, cut at digits, which are left out. In scripts
    /// without spaces the characters that follow one another make words of two.
    fn append(&mut self, text: &str, place: Range<usize>) {
        if self.is_full() {
            return;
        }
        let (bytes, mut appended, mut read) = (&text.as_bytes()[..place.end], place.start, place.start);
        while read < place.end {
            let ascii = read..read + ascii_prefix(&bytes[read..]);
            read = ascii.end + bytes[ascii.end..].iter().take_while(|byte| !byte.is_ascii()).count();
            let whole = whole_words(bytes, &place, ascii);
            // Characters of scripts without spaces make words across what has no letter.
            let is_apart = || whole.len() >= ASCII_MIN && bytes[whole.clone()].iter().any(u8::is_ascii_alphabetic);
            if whole == place || is_apart() {
                self.append_mixed(&text[appended..whole.start]);
                self.append_ascii(text.as_bytes(), whole.clone());
                appended = whole.end;
            }
        }
        self.append_mixed(&text[appended..place.end]);
    }

    /// Appends the words of ASCII at a place of a text, which are its runs of letters.
    fn append_ascii(&mut self, text: &[u8], place: Range<usize>) {
        let (mut begin, mut was_letter) = (None, 0);
        for at in place.clone().step_by(BLOCK_BYTES) {
            let letters = match text[at..].first_chunk() {
                Some(block) => alphabetic(block),
                None => {
                    let (mut padded, rest) = ([0; BLOCK_BYTES], &text[at..]);
                    padded[..rest.len()].copy_from_slice(rest);
                    alphabetic(&padded)
                }
            };
            let n_beyond = BLOCK_BYTES.saturating_sub(place.end - at);
            let letters = letters << n_beyond >> n_beyond;
            // Bits at which words begin and end in turn.
            let mut edges = letters ^ (letters << 1 | was_letter);
            was_letter = letters >> (BLOCK_BYTES - 1);
            while edges != 0 {
                let edge = at + edges.trailing_zeros() as usize;
                edges &= edges - 1;
                match begin.take() {
                    None => begin = Some(edge),
                    Some(begin) => self.push_ascii(text, begin..edge),
                }
            }
        }
        if let Some(begin) = begin {
            self.push_ascii(text, begin..place.end);
        }
    }

    fn push_ascii(&mut self, text: &[u8], place: Range<usize>) {
        let end = self.text.len() + place.len();
        if place.len() > 1 && !self.is_full() {
            match ShortWord::lower(text, place.clone()) {
                Some(word) if self.stop_words.contains_short(word) => {}
                word => {
                    match word {
                        Some(word) => self.text.extend(word.bytes()),
                        None => self.text.extend(text[place].to_ascii_lowercase()),
                    }
                    self.text.truncate(end);
                    self.text.push(b' ');
                    self.n_kept += 1;
                }
            }
        }
        self.starts.push(self.text.len());
    }

    fn append_mixed(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.canonical.clear();
        append_words(text, &mut self.canonical);
        let canonical = std::mem::take(&mut self.canonical);
        let mut before: Option<&str> = None;
        // Words and their parts between digits, in one pass: most words have a few letters.
        let mut start = 0;
        for (at, byte) in canonical.bytes().enumerate() {
            if byte == b' ' || byte.is_ascii_digit() {
                before = self.append_word(before, &canonical[start..at]);
                start = at + 1;
            }
        }
        self.append_word(before, &canonical[start..]);
        self.canonical = canonical;
    }

    /// Appends a word. Returns it where it is one character of a script without spaces.
    fn append_word<'w>(&mut self, before: Option<&'w str>, word: &'w str) -> Option<&'w str> {
        let alone = Some(word).filter(|word| is_alone(word));
        match (before, alone) {
            (Some(first), Some(second)) => self.push(&[first, second]),
            (_, None) if !word.is_empty() => self.push(&[word]),
            _ => {}
        }
        alone
    }

    fn push(&mut self, parts: &[&str]) {
        let is_kept = match parts {
            [word] => word.chars().nth(1).is_some() && !self.stop_words.contains(word),
            _ => true,
        };
        if is_kept && !self.is_full() {
            parts.iter().for_each(|part| self.text.extend(part.as_bytes()));
            self.text.push(b' ');
            self.n_kept += 1;
        }
        self.starts.push(self.text.len());
    }

    /// The words joined by single spaces.
    fn to_text(&self) -> String {
        let text = self.text.strip_suffix(b" ").unwrap_or_default();
        str::from_utf8(text).unwrap_or_default().into()
    }

    /// Where the words at these places stand in the text that remains.
    fn kept(&self, places: Range<usize>) -> Range<usize> {
        let (from, to) = (self.starts[places.start], self.starts[places.end.max(places.start)]);
        // Without the space behind the last word, which goes from the end of the text: `from` may lie behind that.
        if to > from { from..to - 1 } else { 0..0 }
    }
}

/// The part of a run of ASCII whose words do not continue in other characters of its place.
fn whole_words(text: &[u8], place: &Range<usize>, ascii: Range<usize>) -> Range<usize> {
    let bytes = &text[ascii.clone()];
    let begin = if ascii.start == place.start { Some(0) } else { bytes.iter().position(u8::is_ascii_whitespace) };
    let end = if ascii.end == place.end { Some(ascii.len()) } else { bytes.iter().rposition(u8::is_ascii_whitespace) };
    match (begin, end) {
        (Some(begin), Some(end)) => ascii.start + begin..ascii.start + end,
        _ => ascii.start..ascii.start,
    }
}

/// Whether a word is one character of a script that puts no spaces between words: all of their blocks lie above these of
/// alphabets, and Hangul, which has spaces, is written in longer words.
fn is_alone(word: &str) -> bool {
    let mut chars = word.chars();
    word.len() > 2 && chars.next().is_some_and(|first| first >= '\u{e00}') && chars.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn read(rule: &RelatedRule, html: &str) -> PageText {
        let mut page = MarkedText::default();
        page.read_html(html);
        FragmentReader::new(rule).read("http://a/b/page.html#top", &page)
    }

    fn about(said: &PageText, target: &str) -> Vec<String> {
        said.passages
            .iter()
            .filter(|passage| passage.target == target)
            .map(|passage| said.words(passage).into())
            .collect()
    }

    fn content(said: &PageText) -> Vec<&str> {
        BTreeSet::from_iter(said.content()).into_iter().collect()
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
        assert_eq!(said.passages.len(), 1);
        assert_eq!(about(&said, "http://a/b/c.html"), ["beta gamma delta epsilon roses"]);
        assert_eq!(content(&said), ["alpha", "beta", "delta", "epsilon", "gamma", "roses", "zeta"]);
    }

    /// Lost if this fails: the program ends at a page whose last link stands among stop words alone.
    #[test]
    fn a_link_among_stop_words_at_the_end_has_the_title_alone() {
        let rule = RelatedRule { window: 1, titles: Titles::Linking, ..RelatedRule::default() };
        let said = read(&rule, "<title>Roses</title>rose bush of <a href=c>the</a>");
        assert_eq!(about(&said, "http://a/b/c"), ["roses"]);
    }

    #[test]
    fn only_links_to_other_pages_count() {
        let rule = RelatedRule::default();
        let html = "<base href=/d/><a href=#top>self</a><a href=/b/page.html>self</a><a href=mailto:x@y>mail</a>\
                    <a href=javascript:go()>go</a><a href=>folder</a><a href='//Other/x y'>other</a><a href=e>rose</a>";
        let targets: Vec<_> = read(&rule, html).passages.into_iter().map(|passage| passage.target).collect();
        assert_eq!(targets, ["http://a/d/", "http://a/d/", "http://Other/x%20y", "http://a/d/e"]);
        let one = RelatedRule { per_page_max: 1, ..rule };
        assert_eq!(read(&one, html).passages.len(), 1);
    }

    /// Lost once: a link whose `href` a page breaks over lines, which browsers join. Wrong once: control characters of an `href`
    /// reached the terminal with its target.
    #[test]
    fn targets_have_no_line_ends_and_no_control_characters() {
        let html =
            "<base href='/\nd/'><a href='e/\n  f\t.html'>rose</a><a href='http://b/\u{1b}[31mRED\u{9b}&#10;g'>rose</a>";
        let targets: Vec<_> =
            read(&RelatedRule::default(), html).passages.into_iter().map(|said| said.target).collect();
        assert_eq!(targets, ["http://a/d/e/%20%20f.html", "http://b/%1B[31mRED%C2%9Bg"]);
    }

    #[test]
    fn marks_end_words_and_images_speak() {
        let said = read(&RelatedRule::default(), "rose<a href=c>bush<img alt='in bloom'></a>garden utf8 x86");
        assert_eq!(about(&said, "http://a/b/c"), ["rose bush bloom garden utf"]);
    }

    #[test]
    fn scripts_without_spaces_have_words_of_two_characters() {
        let said = read(&RelatedRule::default(), "東京都 rose ไทย 한국어 é");
        assert_eq!(content(&said), ["rose", "ทย", "ไท", "京都", "東京", "한국어"]);
    }

    proptest! {
        /// Words are the same, whether the ASCII among other characters is read apart or not.
        #[test]
        fn ascii_may_be_read_apart(
            text in "([a-z]{1,9} ){0,9}((京|都|ä|\u{301}|\u{ad}|\u{a0}|1|\\.| )([a-zA-Z0-9 .]{0,60}|[ .1]{30,40}|([a-z]{1,9} ){3,9})){0,9}",
        ) {
            let [mut apart, mut mixed] = [(); 2].map(|()| Words::new(StopWords::Short, 40));
            apart.append(&text, 0..text.len());
            mixed.append_mixed(&text);
            prop_assert_eq!((&apart.text, &apart.starts, apart.n_kept), (&mixed.text, &mixed.starts, mixed.n_kept));
        }

        /// ASCII has the words that it has as any other text.
        #[test]
        fn ascii_is_read_like_any_text(begin in 0usize..99, len in 0usize..999, text in "([a-zA-Z0-9 .,<_@\\[`{\\n]|the |Rose|x86|[a-zA-Z]{14,70}){0,60}") {
            let [mut ascii, mut mixed] = [(); 2].map(|()| Words::new(StopWords::Short, 20));
            let begin = begin.min(text.len());
            ascii.append_ascii(text.as_bytes(), begin..text.len().min(begin + len));
            mixed.append_mixed(&text[begin..text.len().min(begin + len)]);
            prop_assert_eq!((&ascii.text, &ascii.starts, ascii.n_kept), (&mixed.text, &mixed.starts, mixed.n_kept));
        }
    }

    /// Lost once: the paper's profile, which limits no links, read 8,192 words of a page. Of an index with 3,472 links it
    /// knew some, and 9 % of PostgreSQL's manual had no related pages.
    #[test]
    fn without_a_limit_of_links_pages_are_read_to_the_end() {
        let html = format!("{}<a href=c>thorns</a> {}<a href=d>", "rose bush ".repeat(WORDS_MAX), "moss ".repeat(99));
        let all = RelatedRule { per_page_max: 0, ..RelatedRule::default() };
        assert_eq!(read(&all, &html).passages.len(), 2);
        assert_eq!(content(&read(&all, &html)), ["bush", "moss", "rose", "thorns"]);
        let said = read(&RelatedRule::default(), &html);
        assert_eq!((said.passages.len(), said.content().count()), (0, WORDS_MAX));
    }

    /// Lost if this fails: a long title, repeated by each of many links, costs the square of the page.
    #[test]
    fn long_titles_are_cut() {
        let linking = RelatedRule { titles: Titles::Linking, ..RelatedRule::default() };
        let said = read(&linking, &format!("<title>{}</title><a href=c>", "rose bush ".repeat(5000)));
        assert_eq!(said.words(&said.passages[0]).split(' ').count(), TITLE_WORDS_MAX);
    }

    /// A page that is one link, or a link a word, costs no more than its words.
    #[test]
    fn long_links_are_cut() {
        let rule = RelatedRule { window: 0, ..RelatedRule::default() };
        let said = read(&rule, &format!("<a href=c>{}", "rose bush ".repeat(5000)));
        assert_eq!(said.words(&said.passages[0]).split(' ').count(), LINK_WORDS_MAX);
        let said = read(&rule, &"<a href=c>rose</a>".repeat(5000));
        assert_eq!(said.passages.len(), rule.per_page_max);
    }
}
