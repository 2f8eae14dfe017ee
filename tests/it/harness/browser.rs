//! A real browser, driven over WebDriver; tests that need one are skipped where none is installed.

use super::server::{ask, until};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The key of an element in WebDriver's answers (W3C WebDriver, section 12).
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A session of Chromium without a window.
pub struct Browser {
    address: SocketAddr,
    session: String,
    driver: Child,
    _profile: TempDir,
}

impl Browser {
    /// A browser; none, with a line that says so, where `chromedriver` is not installed.
    pub fn start() -> Option<Self> {
        if Command::new("chromedriver").arg("--version").stdout(Stdio::null()).status().is_err() {
            println!("skipped: there is no chromedriver; `deploy/debian-packages.sh --tests` installs it");
            return None;
        }
        // It chooses a port that is free for IPv4, and ends where somebody has the same one for IPv6.
        let (driver, port) = until(|| {
            let mut command = Command::new("chromedriver");
            command.arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null());
            let mut driver = command.spawn().expect("starts");
            let mut lines = BufReader::new(driver.stdout.take().expect("piped")).lines().map_while(Result::ok);
            let port = lines.find_map(|line| {
                let (_, port) = line.split_once("successfully on port ")?;
                port.trim_end_matches('.').parse::<u16>().ok()
            });
            if port.is_none() {
                driver.wait().expect("ended");
            }
            Some((driver, port?))
        });
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let profile = tempfile::tempdir().expect("a folder");
        let folder = format!("--user-data-dir={}", profile.path().display());
        // A container offers no sandbox and little shared memory.
        let arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", &folder];
        let wanted = json!({"browserName": "chrome", "goog:chromeOptions": {"args": arguments}});
        let body = json!({"capabilities": {"alwaysMatch": wanted}});
        let answer = send(address, "POST", "/session", &body);
        let session = answer["sessionId"].as_str().expect("a session").to_string();
        Some(Browser { address, session, driver, _profile: profile })
    }

    fn command(&self, command: &str, body: &Value) -> Value {
        send(self.address, "POST", &format!("/session/{}/{command}", self.session), body)
    }

    pub fn open(&self, url: &str) {
        self.command("url", &json!({"url": url}));
    }

    /// The value that a script returns.
    pub fn script(&self, script: &str) -> Value {
        self.command("execute/sync", &json!({"script": script, "args": []}))
    }

    /// Waits until a script returns this value: a form takes its time to be answered.
    pub fn wait(&self, script: &str, wanted: &str) {
        until(|| (self.script(script) == wanted).then_some(()));
    }

    /// The texts of all elements that a selector finds, as shown.
    pub fn texts(&self, selector: &str) -> Vec<String> {
        let script = format!("return [...document.querySelectorAll({})].map(e => e.innerText.trim())", json!(selector));
        serde_json::from_value(self.script(&script)).expect("texts")
    }

    fn element(&self, selector: &str) -> String {
        let found = self.command("element", &json!({"using": "css selector", "value": selector}));
        found[ELEMENT].as_str().expect("an element").to_string()
    }

    pub fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.command(&format!("element/{element}/click"), &json!({}));
    }

    pub fn type_into(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.command(&format!("element/{element}/value"), &json!({"text": text}));
    }

    /// Presses keys, wherever the focus is.
    pub fn press(&self, keys: &str) {
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(|key| [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})])
            .collect();
        self.command("actions", &json!({"actions": [{"type": "key", "id": "keyboard", "actions": actions}]}));
    }

    /// Emulates a screen of this width, and a light or dark colour scheme.
    pub fn emulate(&self, scheme: &str, width: u32) {
        let device = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.develop("Emulation.setDeviceMetricsOverride", &device);
        let wanted = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.develop("Emulation.setEmulatedMedia", &wanted);
    }

    /// The page as it is printed, a PDF.
    pub fn print(&self) -> Vec<u8> {
        let pdf = self.command("print", &json!({}));
        STANDARD.decode(pdf.as_str().expect("a PDF")).expect("Base64")
    }

    fn develop(&self, command: &str, parameters: &Value) {
        self.command("goog/cdp/execute", &json!({"cmd": command, "params": parameters}));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Chromium outlives its driver.
        ask(self.address, "DELETE", &format!("/session/{}", self.session), &[], b"");
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn send(address: SocketAddr, method: &str, path: &str, body: &Value) -> Value {
    let answer = ask(address, method, path, &[("content-type", "application/json")], body.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer.json()["value"].clone()
}
