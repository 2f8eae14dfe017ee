//! What the tests share that hold what goes out against `docs/reference/events.schema.json`.

use jsonschema::Validator;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// The schema of events, with those of everything else in its `$defs`.
pub fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/events.schema.json");
    serde_json::from_str(&fs::read_to_string(path).expect("a schema")).expect("JSON")
}

/// Judges an event.
pub fn event_validator() -> Validator {
    validator_of(&schema())
}

/// Judges what one of the schema's `$defs` describes.
pub fn validator(name: &str) -> Validator {
    let mut schema = schema();
    assert!(schema["$defs"][name].is_object(), "the schema has no {name}");
    schema.as_object_mut().expect("an object").remove("oneOf");
    schema["$ref"] = json!(format!("#/$defs/{name}"));
    validator_of(&schema)
}

fn validator_of(schema: &Value) -> Validator {
    jsonschema::draft202012::options().should_validate_formats(true).build(schema).expect("a schema of draft 2020-12")
}

/// Fails where the schema does not accept a value; `what` names it.
pub fn assert_valid(validator: &Validator, value: &Value, what: &str) {
    let errors: Vec<String> = validator.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{what} is not as the schema says: {errors:?}\n{value}");
}
