//! The same bytes give the same words and sketches on every machine and in every later version.

use lookalike::document::{Body, CanonicalForm, Content, FetchTime, MediaType, Page, Seed};
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
