//! A browser without a window. A test opens pages in the browser, and controls it with keys and the pointer, by the
//! Chrome DevTools Protocol (<https://chromedevtools.github.io/devtools-protocol/>). The protocol's messages go through
//! pipes.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use serde_json::{Value, json};
use tempfile::TempDir;

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chromium-headless-shell"];

/// The size of the window, which is that of a projector.
pub(crate) const SIZE: (u32, u32) = (1920, 1080);

/// How long the browser may take to answer. A busy machine may load a page with a million events for many seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the browser that the environment variable `GMP_CHROMIUM` names, or else the first one of [`NAMES`] that is
/// in `PATH`.
pub(crate) fn find() -> Option<OsString> {
    let in_path = |name: &&str| -> Option<PathBuf> {
        env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(name)).find(|file| file.is_file())
    };
    let named = env::var_os("GMP_CHROMIUM").filter(|name| !name.is_empty());
    named.or_else(|| NAMES.iter().find_map(in_path).map(PathBuf::into_os_string))
}

/// A running browser with one tab.
pub(crate) struct Browser {
    process: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    last_command: u64,
    /// Identifies the tab.
    session: Option<String>,
    /// The messages that are not results of commands, since the last page was opened.
    events: Vec<Value>,
    /// The browser's files, which are deleted when this value is dropped.
    _profile: TempDir,
}

impl Browser {
    pub(crate) fn start(program: &OsStr) -> Result<Self, Failed> {
        let profile = tempfile::tempdir()?;
        // The browser reads commands from descriptor 3 and writes its messages to descriptor 4.
        let mut process = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh"])
            .arg(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--remote-debugging-pipe", "--force-color-profile=srgb", "--disable-smooth-scrolling"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let commands = process.stdin.take().ok_or("no pipe to the browser")?;
        let output = process.stdout.take().ok_or("no pipe from the browser")?;
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            for message in BufReader::new(output).split(0).map_while(Result::ok) {
                let Ok(message) = serde_json::from_slice(&message) else { break };
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let mut browser =
            Self { process, commands, messages, last_command: 0, session: None, events: Vec::new(), _profile: profile };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }))?;
        let attached =
            browser.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }))?;
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        browser.call("Page.enable", json!({}))?;
        browser.call("Runtime.enable", json!({}))?;
        browser.call("Log.enable", json!({}))?;
        browser.resize(SIZE)?;
        Ok(browser)
    }

    pub(crate) fn resize(&mut self, (width, height): (u32, u32)) -> Result<(), Failed> {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", metrics).map(drop)
    }

    /// Tells pages that the user prefers this theme, `light` or `dark`.
    pub(crate) fn prefer(&mut self, theme: &str) -> Result<(), Failed> {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": theme }] });
        self.call("Emulation.setEmulatedMedia", features).map(drop)
    }

    /// Sends a command, and returns its result.
    fn call(&mut self, method: &str, parameters: Value) -> Result<Value, Failed> {
        self.last_command += 1;
        let mut command = json!({ "id": self.last_command, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            command["sessionId"] = session.as_str().into();
        }
        self.commands.write_all(format!("{command}\0").as_bytes())?;
        loop {
            let message = self.receive()?;
            if message["id"] != self.last_command {
                self.events.push(message);
            } else if message["error"].is_null() {
                return Ok(message["result"].clone());
            } else {
                return Err(format!("{method}: {}", message["error"]).into());
            }
        }
    }

    fn receive(&mut self) -> Result<Value, Failed> {
        self.messages.recv_timeout(PATIENCE).map_err(|error| format!("the browser does not answer: {error}").into())
    }

    /// Opens the page in this file, and waits until it is loaded.
    pub(crate) fn show(&mut self, page: &Path) -> Result<(), Failed> {
        self.visit(&format!("file://{}", in_address(page)))
    }

    /// The errors that the page that was opened last has printed on the console, and those of the browser about it.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let is_error = |event: &&Value| match event["method"].as_str() {
            Some("Log.entryAdded") => event["params"]["entry"]["level"] == "error",
            Some("Runtime.consoleAPICalled") => event["params"]["type"] == "error",
            Some("Runtime.exceptionThrown") => true,
            _ => false,
        };
        self.events.iter().filter(is_error).map(|event| event["params"].to_string()).collect()
    }

    /// Opens the page in this file, at this fragment of its address, and waits until it is loaded.
    pub(crate) fn open(&mut self, page: &Path, fragment: &str) -> Result<(), Failed> {
        // The browser does not load the same page again if only the fragment differs, so another page comes first.
        for address in ["about:blank".to_owned(), format!("file://{}#{fragment}", in_address(page))] {
            self.visit(&address)?;
        }
        self.evaluate(include_str!("probe.js")).map(drop)
    }

    /// Opens the page at this address, and waits until it is loaded.
    pub(crate) fn visit(&mut self, address: &str) -> Result<(), Failed> {
        self.events.clear();
        self.call("Page.navigate", json!({ "url": address }))?;
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let message = self.receive()?;
            self.events.push(message);
        }
        Ok(())
    }

    /// Evaluates an expression in the page, and returns its value. Fails if the page has thrown an exception.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Result<Value, Failed> {
        let parameters = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut result = self.call("Runtime.evaluate", parameters)?;
        let thrown = self.events.iter().find(|event| event["method"] == "Runtime.exceptionThrown");
        let failure = thrown.map(|event| &event["params"]["exceptionDetails"]).unwrap_or(&result["exceptionDetails"]);
        if !failure.is_null() {
            return Err(format!("an exception in the page, of {expression:.80}: {failure}").into());
        }
        Ok(result["result"]["value"].take())
    }

    /// Presses a key and releases it: a character, or a key with this name, such as `ArrowLeft`.
    pub(crate) fn press(&mut self, key: &str) -> Result<(), Failed> {
        let (code, text) = match key {
            "Enter" => (13, "\r"),
            "Escape" => (27, ""),
            "PageUp" => (33, ""),
            "PageDown" => (34, ""),
            "ArrowLeft" => (37, ""),
            "ArrowUp" => (38, ""),
            "ArrowRight" => (39, ""),
            "ArrowDown" => (40, ""),
            key => (0, key),
        };
        let kind = if text.is_empty() { "rawKeyDown" } else { "keyDown" };
        self.call(
            "Input.dispatchKeyEvent",
            json!({ "type": kind, "key": key, "windowsVirtualKeyCode": code, "text": text }),
        )?;
        self.call("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code }))?;
        Ok(())
    }

    /// Types each character of `text`.
    pub(crate) fn write(&mut self, text: &str) -> Result<(), Failed> {
        text.chars().try_for_each(|character| self.press(character.encode_utf8(&mut [0; 4])))
    }

    /// Moves the pointer to a point of the window.
    pub(crate) fn point(&mut self, x: f64, y: f64) -> Result<(), Failed> {
        self.call("Input.dispatchMouseEvent", json!({ "type": "mouseMoved", "x": x, "y": y })).map(drop)
    }

    /// Moves the pointer to a point of the window, and clicks.
    pub(crate) fn click(&mut self, x: f64, y: f64) -> Result<(), Failed> {
        self.point(x, y)?;
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event)?;
        }
        Ok(())
    }

    /// Turns the wheel of the pointer at a point of the window, downwards if `delta` is positive.
    pub(crate) fn wheel(&mut self, x: f64, y: f64, delta: f64) -> Result<(), Failed> {
        let event = json!({ "type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": delta });
        self.call("Input.dispatchMouseEvent", event).map(drop)
    }

    /// Moves the pointer from a point of the window to another one, with its button pressed.
    pub(crate) fn drag(&mut self, from: (f64, f64), to: (f64, f64)) -> Result<(), Failed> {
        self.point(from.0, from.1)?;
        for (kind, (x, y)) in [("mousePressed", from), ("mouseMoved", to), ("mouseReleased", to)] {
            let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event)?;
        }
        Ok(())
    }

    /// Saves a picture of the window as a PNG file.
    pub(crate) fn photograph(&mut self, file: &Path) -> Result<(), Failed> {
        // The page draws in its next frame.
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")?;
        let picture = self.call("Page.captureScreenshot", json!({ "format": "png" }))?;
        let png = from_base64(picture["data"].as_str().ok_or("no picture")?);
        // A PNG file begins with a signature and the header, which contains the size.
        let number = |at: usize| u32::from_be_bytes(std::array::from_fn(|byte| png[at + byte]));
        assert_eq!((&png[1..4], number(16), number(20)), (&b"PNG"[..], SIZE.0, SIZE.1));
        Ok(fs::write(file, png)?)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.session = None;
        // If the browser does not end by itself, it is killed.
        let _closed = self.call("Browser.close", json!({}));
        let deadline = Instant::now() + Duration::from_secs(10);
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        let _killed = self.process.kill();
        let _status = self.process.wait();
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    let digit = |byte| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<_> = text.bytes().filter(|&byte| byte != b'=').map(digit).collect();
    let bytes = digits.chunks(4).flat_map(|chunk| {
        let word = chunk.iter().fold(0, |word, &digit| word << 6 | u32::from(digit)) << (6 * (4 - chunk.len()));
        word.to_be_bytes().into_iter().skip(1).take(chunk.len() - 1)
    });
    bytes.collect()
}

/// Returns a path as it is written in an address: with a percent sign and two digits for each byte that may have a
/// meaning there.
fn in_address(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    bytes.map(|&byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
