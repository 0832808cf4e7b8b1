//! The counters of all shims in the text format of Prometheus (0.0.4).
//!
//! Every sample has the labels `session` and `command`. The command is shortened to the program's name, since arguments
//! can hold secrets.

use std::{
    collections::BTreeMap,
    fmt::{self, Write},
    time::Duration,
};

use rescind_feed::{Connected, Counters, Histogram};
use rescind_proto::cause::cut;
use tokio::time::timeout;

use rescind_operator::{Shim, ShimError, ask_all};

/// The content type of [`text`].
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Time for both requests to one shim. A scraper waits ten seconds for the whole answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The counters of one session.
struct Sample {
    session: String,
    command: String,
    counters: Counters,
    connected: Option<Connected>,
}

/// Asks each of `shims` and writes their metrics.
pub(crate) async fn text(shims: Vec<Shim>) -> String {
    let asked = ask_all(shims, async |shim| timeout(PATIENCE, ask(shim)).await.unwrap_or(Err(ShimError::NotAnswering)));
    let (mut samples, mut unreachable) = (Vec::new(), 0);
    for (_, answer) in asked.await {
        match answer {
            Ok(sample) => samples.push(sample),
            // It has ended since its socket was found.
            Err(ShimError::Gone(_)) => {}
            Err(_) => unreachable += 1,
        }
    }
    written(&samples, unreachable)
}

async fn ask(shim: Shim) -> Result<Sample, ShimError> {
    let (session, counters) = tokio::try_join!(shim.session(), shim.counters())?;
    let (command, connected) = (short_command(&session.command), session.connected);
    Ok(Sample { session: shim.name().to_owned(), command, counters, connected })
}

/// Shortens the command of a server to what names it: its program, and the script or package after it. A URL is its host.
/// Options, variables and the rest of a URL are left out, since they may be secrets.
#[must_use]
pub fn short_command(command: &[String]) -> String {
    let is_name = |word: &str| !word.starts_with('-') && !word.contains('=') && !word.contains("://");
    if let Some((_, address)) = command.first().and_then(|word| word.split_once("://")) {
        let authority = address.split(['/', '?', '#']).next().unwrap_or_default();
        return cut(authority.rsplit('@').next().unwrap_or_default(), 64).to_owned();
    }
    let mut words = command.iter().map(String::as_str).skip_while(|word| *word == "env" || word.contains('='));
    let program = words.next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or(program);
    let named = words.find(|word| !matches!(*word, "-y" | "--yes" | "-m"));
    match named.filter(|word| is_name(word)) {
        Some(named) => cut(&format!("{program} {named}"), 64).to_owned(),
        None => cut(program, 64).to_owned(),
    }
}

fn written(samples: &[Sample], unreachable: u64) -> String {
    let mut page = Page { text: String::new(), samples };
    page.family("rescind_shims", "gauge", "Shims that answered.");
    let _ = writeln!(page.text, "rescind_shims {}", samples.len());
    page.family("rescind_shim_unreachable", "gauge", "Shims that have a socket but did not answer.");
    let _ = writeln!(page.text, "rescind_shim_unreachable {unreachable}");
    page.counts("rescind_requests_total", "counter", "Requests, by who sent them.", "side", |c| &c.requests);
    page.counts("rescind_requests_in_flight", "gauge", "Requests in flight, by who sent them.", "side", |c| {
        &c.in_flight
    });
    page.counts("rescind_requests_settled_total", "counter", "Requests that have ended, by how.", "how", |c| {
        &c.settled
    });
    page.counts("rescind_cancels_total", "counter", "Cancels, by cause.", "cause", |c| &c.cancels);
    let help = "Cancels, by current outcome; asked and sent may still change.";
    page.counts("rescind_cancel_outcomes", "gauge", help, "outcome", |c| &c.outcomes);
    let help = "Cancels received that named no open request or were not obeyed, by verdict.";
    page.counts("rescind_cancels_unheeded_total", "counter", help, "verdict", |c| &c.unheeded);
    page.counts("rescind_late_total", "counter", "Messages for requests that had ended, by kind.", "kind", |c| &c.late);
    page.counts("rescind_timeouts_total", "counter", "Requests ended by a timeout, by clock.", "clock", |c| {
        &c.timeouts
    });
    let help = "Requests refused by a limit, by limit.";
    page.counts("rescind_limited_total", "counter", help, "limit", |c| &c.limited);
    let help = "Cancelled requests that were still worked on past the grace.";
    page.count("rescind_stuck_total", "counter", help, |c| c.stuck);
    let help = "Requests that were cancelled and are not known to have stopped.";
    page.count("rescind_requests_released", "gauge", help, |c| c.released);
    page.counts("rescind_children", "gauge", "Subagents of ACP agents, by state.", "state", |c| &c.children);
    let help = "MCP tasks at work, by the status that was reported last.";
    page.counts("rescind_tasks", "gauge", help, "status", |c| &c.tasks);
    let help = "MCP tasks beyond those that are followed.";
    page.count("rescind_tasks_unkept_total", "counter", help, |c| c.unkept_tasks);
    page.count("rescind_messages_dropped_total", "counter", "Messages that were not passed on.", |c| c.dropped);
    page.violations();
    page.connected("rescind_http_sessions", "Sessions of clients on HTTP.", |c| c.sessions);
    page.connected("rescind_http_responses", "HTTP responses under way.", |c| c.responses);
    let help = "Streams that nobody reads and whose client can come back to them.";
    page.connected("rescind_http_kept_streams", help, |c| c.kept);
    let help = "Bytes of messages that are kept for clients that come back.";
    page.connected("rescind_http_kept_bytes", help, |c| c.kept_bytes);
    let help = "How often the server was started anew after it had ended by itself.";
    page.connected("rescind_http_restarts", help, |c| c.restarts);
    let help = "From the cancel to the end of the request for its requester.";
    page.histogram("rescind_cancel_settled_seconds", help, |c| &c.cancel_to_settled);
    let help = "From the cancel to the answer of the side that worked on the request, if it answered.";
    page.histogram("rescind_cancel_answer_seconds", help, |c| &c.cancel_to_answer);
    page.text
}

struct Page<'a> {
    text: String,
    samples: &'a [Sample],
}

impl Page<'_> {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn line(&mut self, name: &str, sample: &Sample, more: &[(&str, &str)], value: impl fmt::Display) {
        let _ =
            write!(self.text, "{name}{{session=\"{}\",command=\"{}\"", Label(&sample.session), Label(&sample.command));
        for (label, value) in more {
            let _ = write!(self.text, ",{label}=\"{}\"", Label(value));
        }
        let _ = writeln!(self.text, "}} {value}");
    }

    fn counts(&mut self, name: &str, kind: &str, help: &str, label: &str, of: fn(&Counters) -> &BTreeMap<String, u64>) {
        self.family(name, kind, help);
        for sample in self.samples {
            for (word, count) in of(&sample.counters) {
                self.line(name, sample, &[(label, word)], count);
            }
        }
    }

    /// A gauge of the sessions whose clients are on HTTP.
    fn connected(&mut self, name: &str, help: &str, of: fn(&Connected) -> u64) {
        self.family(name, "gauge", help);
        for sample in self.samples {
            if let Some(connected) = &sample.connected {
                self.line(name, sample, &[], of(connected));
            }
        }
    }

    fn count(&mut self, name: &str, kind: &str, help: &str, of: fn(&Counters) -> u64) {
        self.family(name, kind, help);
        for sample in self.samples {
            self.line(name, sample, &[], of(&sample.counters));
        }
    }

    fn violations(&mut self) {
        let name = "rescind_violations_total";
        self.family(name, "counter", "Rules broken, by side and the number of the rule.");
        for sample in self.samples {
            for (broken, count) in &sample.counters.violations {
                let (side, rule) = broken.split_once(' ').unwrap_or(("", broken));
                self.line(name, sample, &[("side", side), ("rule", rule)], count);
            }
        }
    }

    fn histogram(&mut self, name: &str, help: &str, of: fn(&Counters) -> &Histogram) {
        self.family(name, "histogram", help);
        let (bucket, sum, count) = (format!("{name}_bucket"), format!("{name}_sum"), format!("{name}_count"));
        for sample in self.samples {
            let Histogram { bounds, counts, sum: micros } = of(&sample.counters);
            let mut below = 0;
            for (bound, counted) in bounds.iter().zip(counts) {
                below = u64::saturating_add(below, *counted);
                self.line(&bucket, sample, &[("le", &Seconds(*bound).to_string())], below);
            }
            let all = counts.iter().copied().fold(0, u64::saturating_add);
            self.line(&bucket, sample, &[("le", "+Inf")], all);
            self.line(&sum, sample, &[], Seconds(*micros));
            self.line(&count, sample, &[], all);
        }
    }
}

/// The escaped value of a label.
struct Label<'a>(&'a str);

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                // Allowed, but useless.
                c if c.is_control() => f.write_char('\u{fffd}')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Microseconds, written exactly in seconds.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, micros) = (self.0 / 1_000_000, self.0 % 1_000_000);
        let text = format!("{whole}.{micros:06}");
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(session: &str, command: &str, counters: Counters) -> Sample {
        let connected = Some(Connected { sessions: 1, responses: 2, kept: 3, kept_bytes: 4, restarts: 5 });
        Sample { session: session.into(), command: command.into(), counters, connected }
    }

    #[test]
    fn what_was_counted_is_said_as_it_should_be_read() {
        let one = |word: &str, count| BTreeMap::from([(word.to_owned(), count)]);
        let counters = Counters {
            requests: one("client", 3),
            violations: one("server MCP-I02", 2),
            limited: one("--limit tools/call=10/1m", 3),
            cancel_to_settled: Histogram { bounds: vec![1_000, 2_500_000], counts: vec![1, 2, 4], sum: 10_000_001 },
            ..Counters::default()
        };
        let text = written(&[sample("4711", "a \"b\"\\\n\u{1b}", counters)], 1);
        let labels = r#"session="4711",command="a \"b\"\\\n"#.to_owned() + "\u{fffd}\"";
        for line in [
            "# TYPE rescind_cancel_settled_seconds histogram".into(),
            "rescind_shims 1".into(),
            "rescind_shim_unreachable 1".into(),
            format!("rescind_http_responses{{{labels}}} 2"),
            format!("rescind_http_kept_bytes{{{labels}}} 4"),
            format!("rescind_http_restarts{{{labels}}} 5"),
            format!("rescind_requests_total{{{labels},side=\"client\"}} 3"),
            format!("rescind_limited_total{{{labels},limit=\"--limit tools/call=10/1m\"}} 3"),
            format!("rescind_violations_total{{{labels},side=\"server\",rule=\"MCP-I02\"}} 2"),
            format!("rescind_cancel_settled_seconds_bucket{{{labels},le=\"0.001\"}} 1"),
            format!("rescind_cancel_settled_seconds_bucket{{{labels},le=\"2.5\"}} 3"),
            format!("rescind_cancel_settled_seconds_bucket{{{labels},le=\"+Inf\"}} 7"),
            format!("rescind_cancel_settled_seconds_sum{{{labels}}} 10.000001"),
            format!("rescind_cancel_settled_seconds_count{{{labels}}} 7"),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn counts_that_no_shim_can_have_are_counts_all_the_same() {
        let counters = Counters {
            cancel_to_settled: Histogram { bounds: vec![1], counts: vec![u64::MAX, 1], sum: u64::MAX },
            ..Counters::default()
        };
        let text = written(&[sample("1", "", counters)], 0);
        assert!(text.contains(&format!("le=\"+Inf\"}} {}", u64::MAX)), "{text}");
    }

    #[test]
    fn a_command_is_shortened_to_what_names_it() {
        let short = |words: &[&str]| short_command(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(short(&["/usr/bin/npx", "-y", "@scope/server", "--token", "hunter2"]), "npx @scope/server");
        assert_eq!(short(&["python3", "-m", "server"]), "python3 server");
        assert_eq!(short(&["./server", "--token", "hunter2"]), "server");
        assert_eq!(short(&["env", "KEY=hunter2", "npx", "server"]), "npx server");
        assert_eq!(short(&["mcp-remote", "https://me:hunter2@host/"]), "mcp-remote");
        assert_eq!(short(&["server", "key=hunter2"]), "server");
        assert_eq!(short(&["https://me:hunter2@host:8/hunter2?hunter2"]), "host:8");
        assert_eq!(short(&[]), "");
    }

    #[test]
    fn seconds_are_exact() {
        let texts = [0, 1, 1_000, 1_000_000, 10_000_000, 1_500_000].map(|micros| Seconds(micros).to_string());
        assert_eq!(texts, ["0", "0.000001", "0.001", "1", "10", "1.5"]);
    }
}
