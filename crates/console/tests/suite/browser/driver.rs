//! Chromium, driven over WebDriver by as much of a client as these tests need.

use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use base64::Engine as _;
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long a page may take to become as it should: only a page that never does takes so long.
const PATIENCE_MS: u64 = 30_000;

/// Written into every document before it loads: what its policy forbade.
const WATCH: &str = "globalThis.forbidden = []; document.addEventListener('securitypolicyviolation', \
                     (event) => forbidden.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));";

/// Written into a document before it loads: its clock stands still, and what it does at a pace of its own it does at once.
const STILL: &str = "
    globalThis.clock = 0;
    performance.now = () => globalThis.clock;
    Object.defineProperty(performance, 'timeOrigin', { value: ORIGIN });
    globalThis.requestAnimationFrame = ((real) => (frame) => real((stamp) => frame(stamp * 60)))(requestAnimationFrame.bind(globalThis));
";

/// A key as WebDriver writes it.
pub(crate) mod key {
    pub(crate) const ENTER: char = '\u{e007}';
    pub(crate) const ESCAPE: char = '\u{e00c}';
    pub(crate) const TAB: char = '\u{e004}';
    pub(crate) const DOWN: char = '\u{e015}';
    pub(crate) const RIGHT: char = '\u{e014}';
    pub(crate) const END: char = '\u{e010}';
    pub(crate) const SPACE: char = ' ';
}

/// A Chromium with a profile of its own. Dropped, it ends, and only it.
#[derive(Debug)]
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    /// Whether pages stand still.
    is_still: bool,
    _profile: TempDir,
}

impl Browser {
    /// Starts one; none where Chromium or its driver is missing, which fails where `RESCIND_REQUIRE_PEERS` is set.
    pub(crate) fn start() -> Option<Self> {
        let (Some(chromium), Some(chromedriver)) =
            (program(&["chromium", "chromium-browser"]), program(&["chromedriver"]))
        else {
            assert!(std::env::var_os("RESCIND_REQUIRE_PEERS").is_none(), "chromium or chromedriver is missing");
            let _ = writeln!(io::stderr(), "skipped: no chromium and chromedriver here");
            return None;
        };
        let (driver, port) = drive(&chromedriver);
        let profile = TempDir::new().expect("a profile");
        let user_data = format!("--user-data-dir={}", profile.path().display());
        let flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--no-first-run",
            "--enable-precise-memory-info",
        ];
        let flags: Vec<&str> = flags.into_iter().chain([user_data.as_str()]).collect();
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "binary": chromium, "args": flags },
            "goog:loggingPrefs": { "browser": "ALL" },
            "timeouts": { "script": PATIENCE_MS + 10_000 },
        } } });
        let mut browser = Self { driver, port, session: String::new(), is_still: false, _profile: profile };
        let opened = browser.post("/session", &wanted);
        browser.session = format!("/session/{}", opened["sessionId"].as_str().expect("a session"));
        browser.before_each_page(WATCH);
        browser.resize(1280, 900);
        browser.scheme("light");
        Some(browser)
    }

    /// Runs a script in every page before it loads.
    pub(crate) fn before_each_page(&self, script: &str) {
        self.devtools("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": script }));
    }

    /// Goes to an address and waits until it is loaded.
    pub(crate) fn go(&self, address: &str) {
        self.post("/url", &json!({ "url": address }));
    }

    /// Loads the page anew.
    pub(crate) fn reload(&self) {
        self.post("/refresh", &json!({}));
    }

    /// Runs a function's body in the page; what it returns.
    pub(crate) fn run(&self, body: &str) -> Value {
        self.post("/execute/sync", &json!({ "script": body, "args": [] }))
    }

    /// Waits until an expression of the page is true, looking at every frame, and gives its value.
    pub(crate) fn until(&self, expression: &str) -> Value {
        let script = format!(
            "const done = arguments[arguments.length - 1];
             const end = Date.now() + {PATIENCE_MS};
             const look = () => {{
               let value;
               try {{ value = ({expression}); }} catch (error) {{ value = null; }}
               if (value) done(value);
               else if (Date.now() > end) done(null);
               else requestAnimationFrame(look);
             }};
             look();"
        );
        let value = self.post("/execute/async", &json!({ "script": script, "args": [] }));
        if value.is_null() {
            let text = self.run("return document.body.innerText");
            panic!(
                "never came true: {expression}\nthe page said: {}\n{:?}",
                text.as_str().unwrap_or_default(),
                self.log()
            );
        }
        value
    }

    /// Waits until the page has drawn itself once more.
    pub(crate) fn next_frame(&self) {
        self.run("globalThis.frame = 0");
        self.until("(globalThis.frame += 1) > 2");
    }

    /// Types keys, wherever the focus is.
    pub(crate) fn press(&self, keys: impl IntoIterator<Item = char>) {
        let strokes = keys
            .into_iter()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key.to_string() })));
        let strokes: Vec<Value> = strokes.collect();
        self.post("/actions", &json!({ "actions": [{ "type": "key", "id": "keys", "actions": strokes }] }));
    }

    /// Types words.
    pub(crate) fn write(&self, words: &str) {
        self.press(words.chars());
    }

    /// Clicks the first element that a selector finds, as a mouse does: once it is seen and lies still, for the driver looks
    /// where it is before it clicks there.
    pub(crate) fn click(&self, selector: &str) {
        self.until(&format!(
            "((node) => {{
               if (!node?.checkVisibility()) return false;
               const {{ x, y }} = node.getBoundingClientRect();
               const rests = node.restsAt?.x === x && node.restsAt.y === y;
               node.restsAt = {{ x, y, frames: rests ? node.restsAt.frames + 1 : 0 }};
               return node.restsAt.frames >= 5;
             }})(document.querySelector({selector:?}))"
        ));
        let found = self.post("/element", &json!({ "using": "css selector", "value": selector }));
        let id = found.as_object().and_then(|found| found.values().next()?.as_str()).expect("an element");
        self.post(&format!("/element/{id}/click"), &json!({}));
    }

    /// From now on every page takes `now`, in microseconds since 1970, for the time, and shows it in UTC.
    pub(crate) fn stand_still(&mut self, now: u64) {
        self.is_still = true;
        self.before_each_page(&STILL.replace("ORIGIN", &format!("{}", now / 1_000)));
        self.devtools("Emulation.setTimezoneOverride", &json!({ "timezoneId": "UTC" }));
        self.scheme("light");
    }

    /// The page's clock, which stands still, goes on by so many microseconds.
    pub(crate) fn go_on(&self, micros: u64) {
        self.run(&format!("globalThis.clock += {}", micros / 1_000));
    }

    /// Waits until the page, whose clock stands still, changes no more.
    pub(crate) fn rest(&self) {
        self.run("globalThis.rest = { text: '', frames: 0 }");
        self.until(
            "((text) => {
               rest = { text, frames: rest.text === text ? rest.frames + 1 : 0 };
               return rest.frames > 5;
             })(document.documentElement.outerHTML)",
        );
    }

    /// Makes the window so large.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        self.resize_as(width, height, false);
    }

    /// Makes the window so large; with `is_phone` it has a phone's scroll bars, which take no room.
    pub(crate) fn resize_as(&self, width: u32, height: u32, is_phone: bool) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone });
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
    }

    /// The user prefers `light` or `dark`, and where pages stand still, that nothing moves.
    pub(crate) fn scheme(&self, scheme: &str) {
        let motion = if self.is_still { "reduce" } else { "no-preference" };
        let features = [("prefers-color-scheme", scheme), ("prefers-reduced-motion", motion)];
        let features = features.map(|(name, value)| json!({ "name": name, "value": value }));
        self.devtools("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Shows the scroll bars, or hides them.
    pub(crate) fn scroll_bars(&self, are_shown: bool) {
        self.devtools("Emulation.setScrollbarsHidden", &json!({ "hidden": !are_shown }));
    }

    /// The user has chosen this size of text in the browser's settings: 16 if nothing was chosen.
    pub(crate) fn text_size(&self, pixels: u32) {
        let sizes = json!({ "fontSizes": { "standard": pixels, "fixed": pixels * 13 / 16 } });
        self.devtools("Page.setFontSizes", &sizes);
    }

    /// Writes a picture of the window for people to look at.
    pub(crate) fn picture(&self, name: &str) {
        let folder = std::env::var_os("RESCIND_SCREENSHOTS")
            .map_or_else(|| Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("screenshots"), PathBuf::from);
        fs::create_dir_all(&folder).expect("a folder for pictures");
        fs::write(folder.join(format!("{name}.png")), self.screenshot()).expect("a picture is written");
    }

    /// A picture of the window, as PNG.
    pub(crate) fn screenshot(&self) -> Vec<u8> {
        let picture = self.call("GET", "/screenshot", None);
        base64::engine::general_purpose::STANDARD.decode(picture.as_str().expect("a picture")).expect("a picture")
    }

    /// What the page's policy forbade since it was loaded, and what the browser took for an error since last asked.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let forbidden = self.run("return globalThis.forbidden ?? []");
        let forbidden = forbidden.as_array().into_iter().flatten().map(Value::to_string);
        forbidden.chain(self.log()).collect()
    }

    fn log(&self) -> Vec<String> {
        let log = self.post("/se/log", &json!({ "type": "browser" }));
        let grave = |entry: &&Value| entry["level"] == "SEVERE";
        log.as_array().into_iter().flatten().filter(grave).map(|entry| entry["message"].to_string()).collect()
    }

    /// Gives the browser a command of its DevTools protocol; its result.
    pub(crate) fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.post("/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.call("POST", path, Some(body))
    }

    fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let path = format!("{}{path}", self.session);
        let (status, answer) = self.ask(method, &path, body).expect("chromedriver answers");
        let value = answer["value"].clone();
        assert_eq!(status, 200, "{method} {path}: {} {}", value["error"], value["message"]);
        value
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<(u16, Value)> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(Duration::from_millis(2 * PATIENCE_MS)))?;
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let mut length = 0;
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        Ok((status, serde_json::from_slice(&body)?))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = self.ask("DELETE", &self.session, None);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// Starts a driver, which chooses a port. It takes the same one for IPv4 and for IPv6, and ends where another process has one
/// of the two: then the next chooses another.
fn drive(chromedriver: &Path) -> (Child, u16) {
    for _ in 0..10 {
        let mut driver = Command::new(chromedriver);
        driver.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut driver = driver.spawn().expect("chromedriver starts");
        match port(&mut driver) {
            Some(port) => return (driver, port),
            None => drop(driver.wait()),
        }
    }
    panic!("chromedriver ended, ten times");
}

/// The port that a driver has chosen, which it says once it listens; `None` if it ends before.
fn port(driver: &mut Child) -> Option<u16> {
    let mut said = BufReader::new(driver.stdout.take().expect("its output"));
    let mut line = String::new();
    let port = loop {
        line.clear();
        if said.read_line(&mut line).expect("its output") == 0 {
            return None;
        }
        if let Some((_, port)) = line.split_once("successfully on port ") {
            break port.trim().trim_end_matches('.').parse().expect("a port");
        }
    };
    // It goes on talking, and must not wait for a reader.
    std::thread::spawn(move || io::copy(&mut said, &mut io::sink()));
    Some(port)
}

/// Where the first of these programs lies.
fn program(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let found = names.iter().flat_map(|name| directories.iter().map(move |directory| directory.join(name)));
    found.into_iter().find(|program| program.is_file())
}
