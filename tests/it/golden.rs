//! The same bytes give the same words and sketches on every machine and in every later version.

use lookalike::document::{
    Body, CanonicalForm, CanonicalRule, Canonicaliser, Content, FetchTime, MediaType, Page, PageContent, Seed,
};
use lookalike::sketch::{Multiplicity, Rule, SketchRule, Sketcher};

const HTML: &str = "<!doctype html><title>A Rose</title><p>A rose is a rose is a <b>ro</b>se, &amp; so on:\
    <ul><li>one<li>two</ul><script>not this</script> Straße, 東京 2026, Ωμέγα.";

fn page(content: Content) -> Page {
    Page { url: "http://a/".into(), fetched_at: FetchTime(0), sweep: None, content }
}

fn html() -> Content {
    Content::Body { media_type: MediaType::Html, body: Body::Text(HTML.into()) }
}

#[test]
fn words() -> Result<(), Box<dyn std::error::Error>> {
    let form = CanonicalForm::from_body(&Body::Text(HTML.into()), MediaType::Html)?;
    assert_eq!(form.as_str(), "a rose a rose is a rose is a rose so on one two straße 東 京 2026 ωμέγα");
    Ok(())
}

/// A page with every kind of frame, and two that are all content: an index of links, and plain text.
#[test]
fn words_of_the_content() -> Result<(), Box<dyn std::error::Error>> {
    let menu: String = (0..8).map(|at| format!("<li><a href=/x>Zum Menü {at}</a></li>")).collect();
    let names: String = (0..21).map(|at| format!("m{at}, ")).collect();
    let page = format!(
        "<title>A rose — the site</title><header>Site</header><nav>Home</nav><ul>{menu}<li>Here</li>{menu}</ul><h1>A rose</h1>\
         <p>A <a href=/r>rose</a> is a rose is a rose, 薔薇 as well, and so on in sixty letters or more.</p>\
         <h2>See</h2><p>one, two, three, four, five, six, seven, eight, nine</p><h2>All</h2><p>{names}</p>\
         <ul><li name='rose#petal'>Petal</li><li name='lily#leaf'>Leaf</li></ul>{}<p>The end.</p><aside>more</aside>\
         <div class='post comments'><p>first</p></div><p><button>Send</button></p><table><tr><td><a href='#bloom()'>bloom</a>\
         </table><h3>bloom</h3><pre>void bloom()</pre><dl><dt>Specified by:<dd><a href='plant#bloom()'>bloom</a></dl><h3>wilt\
         </h3><pre>void wilt()</pre><p>Ends it.</p><footer>©</footer>",
        "<p>Reply</p>".repeat(5)
    );
    let index =
        format!("<title>The site</title><nav>Home</nav><h1>An index</h1><ul>{menu}</ul><div class=footer>New</div>");
    let rule = CanonicalRule { content: PageContent::Main };
    let mut canonicaliser = Canonicaliser::new(&rule);
    let mut words = |text: &str, media_type| {
        canonicaliser.read(&Body::Text(text.into()), media_type).map(|form| form.as_str().to_string())
    };
    let content = "a rose a rose is a rose is a rose 薔 薇 as well and so on in sixty letters or more \
                   see one two three four five six seven eight nine all wilt void wilt ends it";
    assert_eq!(words(&page, MediaType::Html)?, content);
    assert_eq!(
        words(&index, MediaType::Html)?,
        "an index zum menü 0 zum menü 1 zum menü 2 zum menü 3 zum menü 4 zum menü 5 zum menü 6 zum menü 7"
    );
    assert_eq!(words("one, two", MediaType::PlainText)?, "one two");
    assert_eq!(rule.version(), 5);
    Ok(())
}

#[test]
fn sketches() -> Result<(), Box<dyn std::error::Error>> {
    let seed: Seed = "00112233445566778899aabbccddeeff102132435465768798a9bacbdcedfe0f".parse()?;
    let mut shown = Vec::new();
    for rule in [
        SketchRule { rule: Rule::Adaptive { size: 4096 }, ..SketchRule::default() },
        SketchRule { w: 4, rule: Rule::Mod { modulus: 3 }, ..SketchRule::default() },
        SketchRule { w: 2, bits: 64, rule: Rule::Min { size: 3 }, ..SketchRule::default() },
        SketchRule {
            w: 3,
            multiplicity: Multiplicity::Labelled,
            rule: Rule::Adaptive { size: 6 },
            ..SketchRule::default()
        },
        SketchRule::default(),
        SketchRule { w: 2, rule: Rule::Parity { size: 8, error_per_mille: 16 }, ..SketchRule::default() },
    ] {
        let content = Sketcher::new(&rule, &seed).sketch_page(&page(html()), usize::MAX)?.ok_or("a content")?;
        let keys: Vec<String> = content.equivalences.keys().map(|key| format!("{key:?}")).collect();
        let sketch = content.sketch;
        let mut bytes = Vec::new();
        lookalike::sketch::encode(&sketch, &mut bytes);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        shown.push(format!("{} {} {:?} {hex}", sketch.n_shingles, keys.join(","), content.super_shingles));
    }
    assert_eq!(shown.join("\n"), include_str!("../golden/sketches.txt").trim_end());
    Ok(())
}

/// A document large enough for a confirmation: its bytes begin with the number of shingles, the form and the
/// confirmation.
#[test]
fn confirmations() -> Result<(), Box<dyn std::error::Error>> {
    let seed: Seed = "00112233445566778899aabbccddeeff102132435465768798a9bacbdcedfe0f".parse()?;
    let words: Vec<String> = (0..300).map(|n| format!("word{n}")).collect();
    let content = Sketcher::new(&SketchRule::default(), &seed).sketch_form(&CanonicalForm::from_text(&words.join(" ")));
    let mut bytes = Vec::new();
    lookalike::sketch::encode(&content.sketch, &mut bytes);
    let hex: String = bytes[..43].iter().map(|byte| format!("{byte:02x}")).collect();
    let expected = "a30205a59e3fd62d75ed8df008d74a77bec03e7b4d82b6fac9bf4d1be77c4be5f7fe5e3971d7d96bf6d756";
    assert_eq!(hex, expected);
    Ok(())
}
