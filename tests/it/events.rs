//! The published description of events: the schema, the pages that explain it, and what the program writes.

use crate::harness::schema::{assert_valid, event_validator, validator};
use crate::harness::{World, page, root, sweeps};
use lookalike::kafka::{KafkaSettings, SEQ_HEADER, STORE_HEADER, VERSION_HEADER, dead_letter, replayed};
use lookalike::wire::{Event, EventType, Reason, WIRE_VERSION};
use rdkafka::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn word<'a>(event: &'a Value, field: &str) -> &'a str {
    event[field].as_str().expect("a word")
}

fn golden() -> Vec<Value> {
    lines(&fs::read_to_string(root().join("tests/golden/events.jsonl")).expect("events"))
}

/// The events of a world's runs.
fn events_in(world: &World) -> Vec<Value> {
    lines(&fs::read_to_string(world.path("events.jsonl")).unwrap_or_default())
}

/// Pages that are gone, redirect, come back or are not pages, during and after the sample's last sweep.
fn odd_records() -> String {
    let url = "https://docs.npm.example/html/doc/cli/npm-cache.html";
    let at = |day: u32| format!("2018-01-{day:02}T00:00:00.25Z");
    let elsewhere = json!({"url": format!("{url}?old"), "fetched_at": at(1), "http_status": 301, "redirect_to": url});
    let words = |n: usize| (0..60).map(|at| format!("word{} ", at * n)).collect::<String>();
    let records = [
        json!({"url": url, "fetched_at": at(1), "sweep": "4", "gone": true}).to_string(),
        elsewhere.to_string(),
        "no JSON".to_string(),
        json!({"url": url, "fetched_at": at(1), "http_status": 500}).to_string(),
        page("http://a.example/", &at(1), "4", &words(1)),
        page("http://a.example/", &at(2), "5", &words(2)),
        page("http://b.example/", &at(2), "5", &words(2)),
    ];
    records.map(|record| record + "\n").concat()
}

/// Every kind of event that the sample can cause: runs, a closed sweep, two reclusterings, and a sweep that is forgotten.
fn events_of_the_sample() -> Vec<Value> {
    let world = World::new();
    let events = world.path("events.jsonl").display().to_string();
    let out = world.path("clusters.csv").display().to_string();
    world.run(&sweeps());
    world.run(&[world.write("odd.jsonl", odd_records())]);
    world.ask("sweep close", &["3-2017-09-01", "--events", &events]);
    for threshold in ["0.8", "0.5"] {
        world.ask("recluster --apply", &["--threshold", threshold, "--out", &out]);
        world.run(&sweeps());
    }
    world.ask("forget", &["--sweep", "3-2017-09-01"]);
    world.run(&sweeps());
    let whole = World::new();
    let mut backfill = whole.command("backfill -q");
    backfill.arg("--events").arg(whole.path("events.jsonl")).args(sweeps());
    assert!(backfill.status().expect("starts").success());
    [events_in(&world), events_in(&whole)].concat()
}

/// The events of a topic that was recreated, with the program told to accept that.
fn events_of_a_gap() -> Vec<Value> {
    let world = World::new().with("input.from", "kafka").with("log.level", "error");
    for (values, option) in [(&["{}", "{}", "{}"][..], "run -q"), (&["{}"], "run -q --accept-gap")] {
        let cluster = MockCluster::new(1).expect("a mock cluster");
        cluster.create_topic("pages", 1, 1).expect("a topic");
        let brokers = cluster.bootstrap_servers();
        let producer: BaseProducer =
            ClientConfig::new().set("bootstrap.servers", &brokers).create().expect("a producer");
        for value in values {
            let record: BaseRecord<'_, str, str> = BaseRecord::to("pages").partition(0).payload(value);
            producer.send(record).map_err(|(error, _)| error).expect("queued");
        }
        producer.flush(PATIENCE).expect("delivered");
        let n_before = events_in(&world).len();
        let mut command = world.command(option);
        command.arg("--events").arg(world.path("events.jsonl")).env("LOOKALIKE__KAFKA__BROKERS", &brokers);
        let mut process = command.spawn().expect("starts");
        let begin = Instant::now();
        while events_in(&world).len() < n_before + values.len() {
            assert!(begin.elapsed() < PATIENCE && process.try_wait().expect("a status").is_none(), "no events come");
            std::thread::sleep(Duration::from_millis(20));
        }
        let ended = std::process::Command::new("kill").arg(process.id().to_string()).status().expect("kill");
        assert!(ended.success() && process.wait().expect("ended").success());
    }
    events_in(&world)
}

/// Lost once: only the sources showed what an event may hold. Whatever the program writes matches the schema, and
/// the schema allows nothing that the program never writes.
#[test]
fn events_match_the_schema() {
    let validator = event_validator();
    let events = [golden(), events_of_the_sample(), events_of_a_gap()].concat();
    let mut seen: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for event in &events {
        assert_valid(&validator, event, "an event");
        let fields = event.as_object().expect("an object").keys().map(String::as_str);
        seen.entry(word(event, "type")).or_default().extend(fields);
    }
    let schema = crate::harness::schema::schema();
    let names = types_in(&schema);
    for name in &names {
        let fields: BTreeSet<&str> =
            schema["$defs"][name]["properties"].as_object().expect("fields").keys().map(String::as_str).collect();
        assert_eq!(seen.get(name), Some(&fields), "{name}: what was seen, and what the schema has");
    }
    assert_eq!(seen.len(), names.len());
    assert_planted_faults_are_found(&events);
}

/// For each type of event: an additional field, each field missing, and each field with another type.
fn assert_planted_faults_are_found(events: &[Value]) {
    let validator = event_validator();
    let by_type: BTreeMap<&str, &Value> = events.iter().map(|event| (word(event, "type"), event)).collect();
    let schema = crate::harness::schema::schema();
    for (name, event) in by_type {
        let mut planted = (*event).clone();
        planted["documnet"] = json!(1);
        assert!(!validator.is_valid(&planted), "{planted}");
        for field in event.as_object().expect("an object").keys() {
            let mut planted = (*event).clone();
            planted[field] = json!([]);
            assert!(!validator.is_valid(&planted), "{planted}");
            let required = schema["$defs"][name]["required"].as_array().expect("a list");
            if required.iter().any(|required| required == field) {
                planted.as_object_mut().expect("an object").remove(field);
                assert!(!validator.is_valid(&planted), "{planted}");
            }
        }
    }
}

#[test]
fn the_words_of_the_schema_are_those_of_the_program() {
    let schema = crate::harness::schema::schema();
    let words = |path: &str| -> BTreeSet<&str> {
        let words = schema.pointer(path).and_then(Value::as_array).expect(path);
        words.iter().map(|word| word.as_str().expect("a word")).collect()
    };
    let rejected = words("/$defs/rejected/properties/reason/enum");
    let gap = words("/$defs/gap/properties/reason/enum");
    assert_eq!(&rejected | &gap, Reason::ALL.into_iter().map(Reason::as_str).collect());
    assert_eq!(&rejected | &gap, words_of::<Reason>().iter().map(String::as_str).collect());
    let types: BTreeSet<String> = types_in(&schema).into_iter().map(String::from).collect();
    assert_eq!(types, words_of::<EventType>());
    assert_eq!(words("/$defs/dead-letter-headers/properties/lookalike-reason/enum"), rejected);
    let version = WIRE_VERSION.to_string();
    assert_eq!(schema["$defs"]["event-headers"]["properties"][VERSION_HEADER]["const"], version);
    assert_eq!(word(&schema, "$id"), format!("urn:lookalike:events:{version}"));
    let headers = |name: &str| -> BTreeSet<&str> {
        let headers = schema["$defs"][name]["properties"].as_object().expect("headers");
        headers.keys().map(String::as_str).collect()
    };
    let of_event = BTreeSet::from([SEQ_HEADER, STORE_HEADER, VERSION_HEADER]);
    let of_replay = BTreeSet::from([replayed::ORIGIN, replayed::COUNT]);
    let of_letter = BTreeSet::from([
        dead_letter::SOURCE,
        dead_letter::PARTITION,
        dead_letter::OFFSET,
        dead_letter::REASON,
        dead_letter::MESSAGE,
        dead_letter::LEFT_OUT,
    ]);
    assert_eq!((headers("event-headers"), headers("replay-headers")), (of_event.clone(), of_replay.clone()));
    assert_eq!(headers("dead-letter-headers"), &(&of_letter | &of_event) | &of_replay);
}

/// The words of an enumeration, from the error for an unknown one.
fn words_of<T: DeserializeOwned>() -> BTreeSet<String> {
    let refusal = serde_json::from_value::<T>(json!("no such word")).err().expect("a refusal").to_string();
    let expected = refusal.split_once("expected one of ").expect("a list").1;
    expected.split('`').skip(1).step_by(2).map(String::from).collect()
}

/// The event types of the schema.
fn types_in(schema: &Value) -> Vec<&str> {
    let branches = schema["oneOf"].as_array().expect("a list").iter();
    branches.map(|branch| word(branch, "$ref").strip_prefix("#/$defs/").expect("a definition")).collect()
}

/// Every field in the schema has a description.
#[test]
fn every_field_is_described() {
    fn check(schema: &Value, at: &str, root: &Value) {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let shared = field["$ref"].as_str().and_then(|path| root.pointer(path.trim_start_matches('#')));
            let described = |schema: &Value| schema["description"].as_str().is_some_and(|text| text.len() > 5);
            assert!(described(field) || shared.is_some_and(described), "{at}.{name} has no description");
        }
    }
    let schema = crate::harness::schema::schema();
    for (name, definition) in schema["$defs"].as_object().expect("definitions") {
        assert!(definition["description"].is_string(), "{name} has no description");
        validator(name);
        check(definition, name, &schema);
    }
}

/// The code blocks of a page in one language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("docs/reference").join(page)).expect(page);
    let fence = format!("```{language}\n");
    text.split(&fence).skip(1).map(|rest| rest.split("```").next().expect("a block").to_string()).collect()
}

#[test]
fn the_examples_in_the_description_are_events() {
    let validator = event_validator();
    let examples: Vec<Value> = blocks("events.md", "json").iter().flat_map(|block| lines(block)).collect();
    examples.iter().for_each(|example| assert_valid(&validator, example, "an example in events.md"));
    for example in &examples {
        let event: Event = serde_json::from_value(example.clone()).expect("an event");
        assert_eq!(serde_json::from_slice::<Value>(&event.to_json()).expect("JSON"), *example);
    }
    let shown: BTreeSet<&str> = examples.iter().map(|example| word(example, "type")).collect();
    assert_eq!(shown, types_in(&crate::harness::schema::schema()).into_iter().collect(), "each type has an example");
}

/// Lost once: records of files have no dead-letter topic, and nothing said how to find them again. The documented
/// way works.
#[test]
fn rejected_records_of_files_are_found_by_their_events() {
    let world = World::new();
    let record = |url: &str, n: usize| page(url, "2026-11-21T08:00:00Z", "s", &"word ".repeat(n));
    let lines = ["no JSON", "", &record("http://a/", 30), "  ", &record("http://b/", 1), &record("http://c/", 40)];
    let input = world.write("3.jsonl", lines.join("\n") + "\n");
    let limited = world.run_command(&[input]).env("LOOKALIKE__LIMITS__WORDS_MAX", "20").status().expect("starts");
    assert!(limited.success());
    if std::process::Command::new("jq").arg("--version").output().is_err() {
        eprintln!("skipped: there is no jq");
        return;
    }
    let folder = world.path("").display().to_string();
    let shown = blocks("dead-letters.md", "sh").pop().expect("a block");
    let program = concat!(env!("CARGO_BIN_EXE_lookalike"), " run --store store");
    let script = shown.replace("/crawl/", &folder).replace("lookalike run", program);
    let mut shell = std::process::Command::new("bash");
    shell.args(["-euc", &script]).current_dir(&folder).env("LOOKALIKE__STORE__SEED", format!("{:064x}", 7));
    let output = shell.output().expect("bash");
    assert!(output.status.success(), "{script}: {}", crate::harness::text(&output.stderr));
    let events = events_in(&world);
    let taken: Vec<(&str, &str)> = events[4..].iter().map(|event| (word(event, "type"), word(event, "url"))).collect();
    assert_eq!(taken, [("assigned", "http://a/"), ("assigned", "http://c/")]);
}

/// The example consumer keeps the rule of versions: it ignores what a later release may add, and stops at another
/// version before it consumes anything of it.
#[test]
fn the_example_consumer_keeps_the_rule_of_versions() {
    let program = r#"
import importlib.util, json, sqlite3, sys
spec = importlib.util.spec_from_file_location("consumer", sys.argv[1])
consumer = importlib.util.module_from_spec(spec)
spec.loader.exec_module(consumer)

class Message:
    def __init__(self, seq, version, event):
        names = {"lookalike-seq": str(seq), "lookalike-store": "s", "lookalike-version": version, "lookalike-more": "x"}
        self.names = [(name, value.encode()) for name, value in names.items() if value is not None]
        self.seq, self.event = seq, event
    def partition(self): return 0
    def offset(self): return self.seq
    def headers(self): return self.names
    def value(self): return json.dumps(self.event).encode()

state = sqlite3.connect(":memory:")
state.executescript(consumer.SCHEMA)
page = {"type": "assigned", "url": "http://a/", "document": 1, "cluster": 1, "fetched_at": "2026-01-01T00:00:00Z",
        "sweep": None, "seq": 0, "more": [1]}
consumer.consume(state, Message(0, "1", page))
consumer.consume(state, Message(1, "1", {"type": "more", "seq": 1, "url": None}))
for version in ("2", None):
    try:
        consumer.consume(state, Message(2, version, {**page, "cluster": 9}))
    except SystemExit as refused:
        print(refused)
print(state.execute(consumer.PRESENT).fetchall(), state.execute("SELECT seq FROM progress").fetchall())
"#;
    let mut python = std::process::Command::new("python3");
    python.args(["-c", program]).arg(root().join("deploy/consumer.py"));
    let Ok(output) = python.output() else {
        eprintln!("skipped: there is no Python");
        return;
    };
    assert!(output.status.success(), "{}", crate::harness::text(&output.stderr));
    let output_text = crate::harness::text(&output.stdout);
    let lines: Vec<&str> = output_text.lines().collect();
    assert!(lines[0].contains("version 2 of the events") && lines[1].contains("version None"), "{lines:?}");
    assert_eq!(lines[2], "[(1, 'http://a/')] [(1,)]");
}

/// The AsyncAPI page names the topics, headers and messages that exist.
#[test]
fn the_asyncapi_page_is_about_this_program() {
    let text = fs::read_to_string(root().join("docs/reference/asyncapi.yaml")).expect("a page");
    let page: Value = serde_saphyr::from_str(&text).expect("YAML");
    assert_eq!(page["asyncapi"], "3.0.0");
    assert_eq!(page["info"]["version"], format!("{WIRE_VERSION}.0.0"));
    let settings = KafkaSettings::default();
    let letters = settings.dead_letter_topic();
    let topics = [
        ("pages", &settings.topic),
        ("events", &settings.events_topic),
        ("assignments", &settings.assignments_topic),
        ("merges", &settings.merges_topic),
        ("sketches", &settings.sketches_topic),
        ("deadLetters", &letters),
    ];
    let channels = page["channels"].as_object().expect("channels");
    let found: BTreeMap<&str, &str> =
        channels.iter().map(|(name, channel)| (name.as_str(), word(channel, "address"))).collect();
    assert_eq!(found, topics.into_iter().map(|(name, topic)| (name, topic.as_str())).collect());

    let schema = crate::harness::schema::schema();
    let messages = page["components"]["messages"].as_object().expect("messages");
    let of_events = channels["events"]["messages"].as_object().expect("messages");
    let types: BTreeSet<&str> = types_in(&schema).into_iter().collect();
    assert_eq!(
        of_events.keys().map(String::as_str).collect::<BTreeSet<_>>(),
        types,
        "a message for each type of event"
    );
    let mut referred = BTreeSet::new();
    for channel in channels.values() {
        for message in channel["messages"].as_object().expect("messages").values() {
            let name = word(message, "$ref").strip_prefix("#/components/messages/").expect("a message");
            assert!(messages.contains_key(name), "there is no message {name}");
            referred.insert(name);
        }
    }
    assert_eq!(referred.len(), messages.len(), "every message is of a topic");
    let mut references = BTreeSet::new();
    find_references(&page, &mut references);
    for reference in references {
        let found = match reference.strip_prefix("./events.schema.json#") {
            Some(pointer) => schema.pointer(pointer),
            None => page.pointer(reference.strip_prefix('#').expect("a reference within the page")),
        };
        assert!(found.is_some(), "{reference} leads nowhere");
    }
    let headers = |message: &str| messages[message]["headers"]["$ref"].as_str().map(String::from);
    let of = |name: &str| Some(format!("./events.schema.json#/$defs/{name}"));
    for name in types.iter().chain(&["assignment", "merge"]) {
        assert_eq!(headers(name), of("event-headers"), "{name}");
        assert_eq!(messages[*name]["payload"]["$ref"].as_str().map(String::from), of(name), "{name}");
    }
    assert_eq!(headers("deadLetter"), of("dead-letter-headers"));
}

fn find_references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str).map(String::from));
            fields.values().for_each(|value| find_references(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| find_references(value, found)),
        _ => {}
    }
}
