//! Environment variables that look like settings and are none: the mistake is found, and the right name given.

use super::error::ConfigError;
use std::collections::BTreeSet;

/// What every variable of the program begins with.
const PREFIX: &str = "LOOKALIKE_";

/// Fails at the first variable, in order of names, that was meant to set a key and does not: `LOOKALIKE_STORE_PATH` or
/// `LOOKALIKE_STORE__PATH` for `LOOKALIKE__STORE__PATH`. `keys` are all keys with dots; `secrets` are the variables that
/// the configuration itself reads secrets from.
pub(super) fn check_names<'a>(
    names: impl Iterator<Item = &'a String>,
    keys: &BTreeSet<String>,
    secrets: &BTreeSet<String>,
) -> Result<(), ConfigError> {
    let names: BTreeSet<&String> = names.filter(|name| !secrets.contains(*name)).collect();
    for name in names {
        if let Some(right) = name.strip_prefix(PREFIX).and_then(|rest| right_name(rest, keys)) {
            return Err(ConfigError(format!(
                "the environment variable {name} sets nothing: two underscores precede the section and the key; write {right}"
            )));
        }
    }
    Ok(())
}

/// The variable that sets a key, where the rest of a name means one and is not spelt so.
fn right_name(rest: &str, keys: &BTreeSet<String>) -> Option<String> {
    let single = |text: &str| text.to_lowercase().replace("__", "_");
    let meant = single(rest.trim_start_matches('_'));
    let variable = |key: &str| format!("LOOKALIKE__{}", key.replace('.', "__").to_uppercase());
    let exact = keys.iter().map(|key| variable(key)).find(|variable| variable.strip_prefix(PREFIX) == Some(rest));
    if exact.is_some() {
        return None;
    }
    if let Some(key) = keys.iter().find(|key| key.replace('.', "_") == meant) {
        return Some(variable(key));
    }
    // LOOKALIKE_SKETCH__WW is meant as a setting, too. Under its right name it is refused as an unknown key.
    let (section, key) = rest.split_once("__").filter(|(section, _)| !section.is_empty())?;
    let is_section = keys.iter().any(|key| key.split('.').next() == Some(&section.to_lowercase()));
    is_section.then(|| format!("LOOKALIKE__{section}__{key}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_one_underscore_are_refused_with_the_right_one() {
        let keys = ["store.path", "sketch.w", "pipeline.in_flight_mib_max", "input.fields.url", "http.token"];
        let keys: BTreeSet<String> = keys.map(String::from).into();
        for (name, right) in [
            ("LOOKALIKE__STORE__PATH", ""),
            ("LOOKALIKE_STORE_PATH", "LOOKALIKE__STORE__PATH"),
            ("LOOKALIKE_STORE__PATH", "LOOKALIKE__STORE__PATH"),
            ("LOOKALIKE__STORE_PATH", "LOOKALIKE__STORE__PATH"),
            ("LOOKALIKE_SKETCH__W", "LOOKALIKE__SKETCH__W"),
            ("LOOKALIKE_SKETCH__WW", "LOOKALIKE__SKETCH__WW"),
            ("LOOKALIKE_PIPELINE_IN_FLIGHT_MIB_MAX", "LOOKALIKE__PIPELINE__IN_FLIGHT_MIB_MAX"),
            ("LOOKALIKE_INPUT_FIELDS_URL", "LOOKALIKE__INPUT__FIELDS__URL"),
            // What tests and container platforms set, and secrets by any name.
            ("LOOKALIKE_TEST_KAFKA", ""),
            ("LOOKALIKE_CHAOS_KILLS", ""),
            ("LOOKALIKE_DATA", ""),
            ("LOOKALIKE_HTTP_SERVICE_HOST", ""),
            ("LOOKALIKE_PASSWORD", ""),
            ("LOOKALIKE_HTTP_TOKEN", ""),
        ] {
            let secrets = BTreeSet::from(["LOOKALIKE_HTTP_TOKEN".to_string()]);
            let checked = check_names([name.to_string()].iter(), &keys, &secrets);
            match (checked, right) {
                (Ok(()), "") => {}
                (Err(error), right) if !right.is_empty() => {
                    let text = error.to_string();
                    assert!(text.contains(name) && text.ends_with(right), "{text}");
                }
                (checked, right) => panic!("{name}: {checked:?} is not {right:?}"),
            }
        }
    }
}
