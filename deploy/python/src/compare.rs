//! `compare`: two texts, by all of their shingles and by their sketches.

use crate::error::{failed, usage};
use crate::settings::Settings;
use crate::sketch::{media_type, sketch_text};
use crate::table::Text;
use lookalike::ports::StoreRule;
use lookalike::query::{Comparison, compare_sketches, nothing_to_compare};
use lookalike::sketch::{Rule, SketchRule, Sketcher};
use pyo3::prelude::*;
use serde::Serialize;

#[derive(Serialize)]
struct Comparisons {
    exact: Comparison,
    estimated: Comparison,
}

/// Compares two texts. Returns JSON.
#[pyfunction]
pub(crate) fn compare(py: Python<'_>, a: &str, b: &str, html: bool, settings: &Settings) -> PyResult<String> {
    py.detach(|| {
        let (rule, seed) = settings.rule_and_seed(None)?;
        let StoreRule { sketch: rule, canonical, .. } = rule;
        let exact_rule = SketchRule { rule: Rule::All, bits: 64, ..rule.clone() };
        let compared = |rule: &SketchRule| -> PyResult<Comparison> {
            let mut sketcher = Sketcher::new(rule, &seed).reading(&canonical);
            let mut sketch = |name: &str, text: &str| {
                let limits = &settings.config.limits;
                let content = sketch_text(&mut sketcher, Text::Text(text), media_type(html), limits).map_err(usage)?;
                if content.sketch.n_shingles == 0 {
                    return Err(usage(nothing_to_compare(name, content.n_words, rule.w)));
                }
                Ok(content.sketch)
            };
            Ok(compare_sketches(&*sketch("a", a)?, &*sketch("b", b)?, rule.rule))
        };
        let comparisons = Comparisons { exact: compared(&exact_rule)?, estimated: compared(&rule)? };
        serde_json::to_string(&comparisons).map_err(failed)
    })
}
