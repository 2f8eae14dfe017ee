//! Links to the copy of a page in a web archive, from the template `http.archive_url`.

use crate::document::FetchTime;

const URL: &str = "{url}";
const TIME: &str = "{time}";

/// What is wrong with a template; none where it is valid. An empty one makes no links.
pub(super) fn problem(template: &str) -> Option<String> {
    let is_web = template.starts_with("https://") || template.starts_with("http://");
    let rest = template.replace(URL, "").replace(TIME, "");
    let is_valid = is_web && template.contains(URL) && !rest.contains(['{', '}', ' ']);
    (!template.is_empty() && !is_valid).then(|| {
        format!(
            "archive_url is {template:?}; it must begin with https:// or http:// and hold {URL}, and may hold {TIME}; \
             empty: no links"
        )
    })
}

/// The link to the copy of a web page nearest to a time; none where the template is empty or no browser could have opened
/// the URL.
pub(super) fn link(template: &str, url: &str, time: FetchTime) -> Option<String> {
    let is_web = url.starts_with("https://") || url.starts_with("http://");
    (is_web && !template.is_empty()).then(|| {
        let time: String = time.to_string().chars().filter(char::is_ascii_digit).take(14).collect();
        // The part after `#` would be that of the archive's page.
        template.replace(TIME, &time).replace(URL, &url.replace('#', "%23"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_becomes_a_link() {
        let time: FetchTime = "2014-08-01T02:03:04.5Z".parse().expect("a time");
        let wayback = "https://web.archive.org/web/{time}/{url}";
        assert_eq!(
            link(wayback, "https://a.example/x?y#z", time).as_deref(),
            Some("https://web.archive.org/web/20140801020304/https://a.example/x?y%23z")
        );
        assert_eq!(link("", "https://a.example/", time), None);
        assert_eq!(link(wayback, "javascript:alert(1)", time), None);
        assert_eq!(link(wayback, "key", time), None);
    }

    #[test]
    fn templates_are_checked() {
        for (template, is_valid) in [
            ("", true),
            ("https://web.archive.org/web/{time}/{url}", true),
            ("http://127.0.0.1:8081/crawl/{url}", true),
            ("https://web.archive.org/web/{time}/", false),
            ("javascript:{url}", false),
            ("https://a.example/{url}/{date}", false),
        ] {
            assert_eq!(problem(template).is_none(), is_valid, "{template}");
        }
    }
}
