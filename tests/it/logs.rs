//! With `log.format = "json"` every line on standard error is an object, whatever a command does.

use crate::harness::{World, page, sweeps, text};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

const DAY: &str = "2026-11-21T00:00:00Z";

/// A line, after checks that it has what every line has.
fn object(line: &str) -> Value {
    let object: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let timestamp = object["timestamp"].as_str().expect("a time");
    assert!(timestamp.len() == "2026-11-21T00:00:00.000000Z".len() && timestamp.ends_with('Z'), "{line}");
    assert!(["ERROR", "WARN", "INFO", "DEBUG"].contains(&object["level"].as_str().expect("a level")), "{line}");
    assert!(object["target"].is_string() && object["message"].is_string() && object["fields"].is_object(), "{line}");
    object
}

/// The exit code of a command, and its lines on standard error.
fn lines_of(command: &mut Command) -> (Option<i32>, Vec<Value>) {
    let output = command.output().expect("starts");
    (output.status.code(), text(&output.stderr).lines().map(object).collect())
}

fn of_target<'a>(lines: &'a [Value], target: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["target"] == target).collect()
}

fn has(line: &Value, part: &str) -> bool {
    line["message"].as_str().is_some_and(|message| message.contains(part))
}

/// Lost if this fails: lines that a collector of logs takes for garbage, or never shows.
#[test]
fn a_run_tells_all_as_json() {
    let world = World::new().with("log.format", "json").with("log.level", "info");
    let (code, lines) = lines_of(world.command("run").args(sweeps()));
    assert_eq!(code, Some(0), "{lines:?}");
    let summaries = of_target(&lines, "lookalike::summary");
    let [summary] = summaries[..] else { panic!("{lines:?}") };
    assert!(has(summary, " records in "), "{summary}");
    assert!(summary["fields"]["n_records"].as_u64() > Some(600), "{summary}");
    assert_eq!(summary["level"], "INFO");

    let (code, lines) = lines_of(&mut world.command("sweep close 3-2017-09-01"));
    assert_eq!(code, Some(0), "{lines:?}");
    let audited: Vec<&Value> =
        of_target(&lines, "lookalike::audit").into_iter().map(|line| &line["fields"]["outcome"]).collect();
    assert_eq!(audited, [&json!("begun"), &json!("done")]);
    assert!(of_target(&lines, "lookalike::audit")[0]["fields"]["pid"].is_u64(), "{lines:?}");

    // What is left out of text is left out here.
    let (code, lines) = lines_of(world.command_on("run -q", &world.path("quiet")).args(sweeps()));
    assert!(code == Some(0) && of_target(&lines, "lookalike::summary").is_empty(), "{lines:?}");
}

/// Lost if this fails: why a command failed, for whoever has only the collected log.
#[test]
fn a_command_that_fails_says_why_as_json() {
    let world = World::new().with("log.format", "json");
    let cut = world.write("cut.jsonl", page("http://a/", DAY, "s", "one two three") + "\n{\"url\"");
    let (code, lines) = lines_of(world.command("run").arg(&cut));
    let damage: Vec<&Value> = lines.iter().filter(|line| line["level"] == "ERROR").collect();
    assert!(code == Some(3) && damage.len() == 1 && has(damage[0], "the last line is incomplete"), "{lines:?}");

    let missing = world.path("missing").display().to_string();
    for (command, arguments, exit_code, error, part) in [
        ("run", vec![missing.as_str()], 2, "usage", "no such file"),
        ("run", vec!["--no-such-flag"], 2, "usage", "--no-such-flag"),
        ("config validate", vec!["--config", missing.as_str()], 2, "usage", "check the path"),
        ("query url", vec!["http://never/"], 4, "not-found", "http://never/"),
        ("query url --json", vec!["http://never/"], 4, "not-found", "http://never/"),
        ("forget", vec!["--urls-from", missing.as_str()], 2, "usage", "--urls-from: "),
    ] {
        let (code, lines) = lines_of(world.command(command).args(arguments));
        let last = lines.last().expect(command);
        assert_eq!((code, &last["exit_code"], &last["error"]), (Some(exit_code), &json!(exit_code), &json!(error)));
        assert!(has(last, part) && last["level"] == "ERROR", "{command}: {last}");
    }
}

/// A file of settings asks for JSON, also one that is wrong otherwise; the environment wins.
#[test]
fn a_file_asks_for_json() {
    let world = World::new();
    let file = world.write("json.toml", "[log]\nformat = \"json\"\n");
    let wrong = world.write("wrong.toml", "[log]\nformat = \"json\"\n[sketch]\nw = 0\n");
    let store = world.path("no-store");
    let (code, lines) = lines_of(world.command_on("stats", &store).arg("--config").arg(&file));
    assert!(code == Some(1) && lines.len() == 1 && has(&lines[0], "there is no store"), "{lines:?}");
    let (code, lines) = lines_of(world.command_on("stats", &store).arg("--config").arg(&wrong));
    assert!(code == Some(2) && lines.len() == 1 && has(&lines[0], "sketch.w"), "{lines:?}");
    let text_again = World::new().with("log.format", "text");
    let output = text_again.command("stats").arg("--config").arg(&file).output().expect("starts");
    assert!(text(&output.stderr).starts_with("lookalike: "), "{}", text(&output.stderr));
}

/// Lost if this fails: how far a run is, where only the log tells.
#[test]
fn progress_is_json() {
    let world = World::new().with("log.format", "json").with("log.progress_seconds", 1);
    let mut command = world.command("run");
    let mut run = command.arg("-").stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut input = run.stdin.take().expect("piped");
    let pages: Vec<String> = (0..3).map(|n| page(&format!("http://a/{n}"), DAY, "s", "one two three")).collect();
    writeln!(input, "{}", pages.join("\n")).expect("written");
    input.flush().expect("written");
    let mut lines =
        BufReader::new(run.stderr.take().expect("piped")).lines().map(|line| object(&line.expect("a line")));
    let progress = lines.find(|line| line["fields"]["n_records"] == 3).expect("a line of progress");
    assert_eq!(progress["target"], "lookalike::progress");
    assert!(has(&progress, "3 pages") && progress["fields"]["records_per_second"].is_number(), "{progress}");
    drop(input);
    let last = lines.last().expect("a summary");
    assert_eq!((&last["target"], &last["fields"]["n_records"]), (&json!("lookalike::summary"), &json!(3)));
    assert!(run.wait().expect("ended").success());
}
