//! HTML that no text can break out of: markup is a literal of this program, everything else is escaped.

use std::fmt::{self, Display, Write};

/// A piece of HTML.
#[derive(Default)]
pub(crate) struct Html(String);

impl Html {
    /// Markup of this program.
    pub fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Any text, for an element or a quoted attribute.
    pub fn text(&mut self, text: impl Display) -> &mut Self {
        // Writing to a string cannot fail.
        let _ = write!(Escaping(&mut self.0), "{text}");
        self
    }

    /// Any text as a value after `?`, in a quoted attribute.
    pub fn query(&mut self, text: &str) -> &mut Self {
        for byte in text.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                self.0.push(char::from(byte));
            } else {
                let _ = write!(self.0, "%{byte:02X}");
            }
        }
        self
    }

    /// Appends another piece.
    pub fn html(&mut self, html: Html) -> &mut Self {
        self.0.push_str(&html.0);
        self
    }

    /// A URL to read, isolated from the direction of the text around it.
    pub fn url(&mut self, url: &str) -> &mut Self {
        self.raw("<bdi class=\"url\">").text(url).raw("</bdi>")
    }

    /// A link to the page about a URL.
    pub fn link(&mut self, url: &str) -> &mut Self {
        self.raw("<a href=\"/?url=").query(url).raw("\">").url(url).raw("</a>")
    }

    /// The same with the site left out; the whole URL shows as the link's title.
    pub fn path_link(&mut self, url: &str) -> &mut Self {
        self.raw("<a href=\"/?url=")
            .query(url)
            .raw("\" title=\"")
            .text(url)
            .raw("\">")
            .url(site_and_path(url).1)
            .raw("</a>")
    }

    /// A link out of this program, named by a word. The page that it leads to learns nothing of where it stood.
    pub fn outside(&mut self, href: &str, word: &'static str, url: &str) -> &mut Self {
        self.raw("<a class=\"outside\" rel=\"noreferrer noopener\" href=\"").text(href).raw("\" title=\"").raw(word);
        self.raw(": ").text(url).raw("\" aria-label=\"").raw(word).raw(": ").text(url).raw("\">").raw(word).raw("</a>")
    }

    /// A link to where a URL leads on the web; a URL that no browser should follow is text.
    pub fn live_link(&mut self, url: &str) -> &mut Self {
        if !(url.starts_with("https://") || url.starts_with("http://")) {
            return self.url(url);
        }
        self.raw("<a rel=\"noreferrer\" href=\"").text(url).raw("\">").url(url).raw("</a>")
    }

    /// A drawing of this program, in which all text is escaped.
    pub fn drawing(&mut self, svg: String) -> &mut Self {
        self.0.push_str(&svg);
        self
    }

    /// A number from 0 to 1 as a bar and in per cent. A number under 1 never shows as 100 %.
    pub fn share(&mut self, share: f64) -> &mut Self {
        let per_cent = if share < 1.0 { (share * 100.0).round().min(99.0) } else { 100.0 };
        self.raw("<span class=\"share\"><meter min=\"0\" max=\"1\" aria-hidden=\"true\" value=\"")
            .text(format_args!("{share:.4}"))
            .raw("\"></meter> ")
            .text(per_cent)
            .raw("&nbsp;%</span>")
    }

    /// A share that may be unknown.
    pub fn known_share(&mut self, share: Option<f64>) -> &mut Self {
        match share {
            Some(share) => self.share(share),
            None => self.raw("<span class=\"note\" title=\"the sketches do not tell\">unknown</span>"),
        }
    }

    /// A number and what it counts.
    pub fn count(&mut self, number: u64, one: &'static str, many: &'static str) -> &mut Self {
        self.number(number).raw("&nbsp;").raw(if number == 1 { one } else { many })
    }

    /// A number with spaces between thousands.
    pub fn number(&mut self, number: u64) -> &mut Self {
        let digits = number.to_string();
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                self.0.push('\u{202f}');
            }
            self.0.push(digit);
        }
        self
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

/// Scheme and host of a URL, and what follows. A URL without a host is all path.
pub(super) fn site_and_path(url: &str) -> (&str, &str) {
    let begin = url.find("://").filter(|at| *at > 0 && *at < 16).map_or(0, |at| at + 3);
    match url[begin..].find(['/', '?', '#']) {
        Some(path) if begin > 0 => url.split_at(begin + path),
        _ => ("", url),
    }
}

struct Escaping<'a>(&'a mut String);

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                // HTML has no NUL.
                '\0' => self.0.push('\u{fffd}'),
                _ => self.0.push(c),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_text_leaves_its_place(text in any::<String>()) {
            let mut html = Html::default();
            html.raw("<p title=\"").text(&text).raw("\">").text(&text).raw("</p><a href=\"/?url=").query(&text).raw("\">");
            let html = html.into_string();
            prop_assert_eq!(html.matches('<').count(), 3, "{}", html);
            prop_assert_eq!(html.matches('>').count(), 3, "{}", html);
            prop_assert_eq!(html.matches('"').count(), 4, "{}", html);
            prop_assert!(!html.contains('\''));
        }

        /// This program's own HTML reader gets the text back.
        #[test]
        fn a_reader_gets_the_text_back(text in "[ -~äß&;#x0-9]{0,40}") {
            let mut html = Html::default();
            html.text(&text);
            let mut read = String::new();
            crate::document::append_html_text(&html.into_string(), &mut read);
            prop_assert_eq!(read, text);
        }
    }

    #[test]
    fn a_site_and_its_paths() {
        for (url, expected) in [
            ("https://a.example/x/y?z", ("https://a.example", "/x/y?z")),
            ("https://a.example?z", ("https://a.example", "?z")),
            ("https://a.example", ("", "https://a.example")),
            ("javascript:alert(1)//x://y/z", ("", "javascript:alert(1)//x://y/z")),
            ("key", ("", "key")),
            ("://x/y", ("", "://x/y")),
        ] {
            assert_eq!(site_and_path(url), expected, "{url}");
        }
    }

    #[test]
    fn thousands_are_apart() {
        for (number, expected) in
            [(0, "0"), (999, "999"), (1000, "1\u{202f}000"), (1_234_567, "1\u{202f}234\u{202f}567")]
        {
            assert_eq!(Html::default().number(number).0, expected);
        }
    }

    #[test]
    fn a_share_under_one_is_never_all() {
        let shown = |share| {
            let mut html = Html::default();
            html.share(share);
            html.into_string()
        };
        assert!(shown(1.0).contains("100&nbsp;%"));
        assert!(shown(0.9999).contains(" 99&nbsp;%"));
        assert!(shown(0.125).contains(" 13&nbsp;%"));
    }
}
