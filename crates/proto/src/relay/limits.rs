//! Limits on what a side may ask for, against loops that run unwatched (D65).
//!
//! Whether a request exceeds one is decided once, when it has been admitted and before anything of it goes on. One that
//! does is cancelled with the cause `policy` before it was sent, and answered at once. What passes is counted then, and
//! stays counted whatever becomes of it.

mod window;

use core::{
    hash::{Hash, Hasher},
    time::Duration,
};
use std::collections::BTreeMap;

use super::{Relay, Settled, Step, settle::write_receipt};
use crate::{
    cause::{Cause, CauseCode, cut, sanitised},
    dialect::FailureForm,
    error_code, fingerprint,
    frame::{Params, ResponseBody},
    hash::Seed,
    json,
    link::RequestKey,
    message,
    method::Method,
    side::Side,
    time::Instant,
};
use window::Window;

/// Methods and tools whose last answers were errors that are kept at most; then the one that failed longest ago is
/// forgotten.
const MAX_FAILING: usize = 256;

/// How much of a method's or a tool's name an answer quotes, in bytes.
const MAX_QUOTED: usize = 128;

/// The limits of a relay (D65); none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitRules {
    /// Each one holds, whatever the others allow.
    pub rates: Vec<RateLimit>,
    /// How often the client may ask for the same.
    pub repeats: Option<RepeatLimit>,
    /// How often the server may fail.
    pub errors: Option<ErrorLimit>,
}

/// So many requests within so long.
///
/// In no span of that length do more pass; a place is free again after it, or up to a sixty-fourth of it later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// How the limit is named to those who meet it, such as `--limit 10/1m`.
    pub name: Box<str>,
    /// The method it is for, whichever side asks; `None` means every request of the client but those in
    /// [`Dialect::upkeep`](crate::dialect::Dialect::upkeep).
    pub method: Option<Box<str>>,
    /// The `name` in the params, such as a tool's; only together with `method`.
    pub tool: Option<Box<str>>,
    /// How many may pass.
    pub most: u32,
    /// Within how long.
    pub per: Duration,
}

/// The same request of the client, by its method and its arguments, so many times in a row. A different request of the
/// client begins anew, and one in [`Dialect::upkeep`](crate::dialect::Dialect::upkeep) does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepeatLimit {
    /// See [`RateLimit::name`].
    pub name: Box<str>,
    /// How many may pass.
    pub most: u32,
}

/// So many answers in a row that are errors, of requests of the client with one method and tool. After that requests for
/// it are refused, but for one in each pause: an answer to it that is not an error ends the limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorLimit {
    /// See [`RateLimit::name`].
    pub name: Box<str>,
    /// How many errors it takes.
    pub most: u32,
    /// How long requests are refused before the next one passes.
    pub pause: Duration,
}

impl LimitRules {
    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rates.is_empty() && self.repeats.is_none() && self.errors.is_none()
    }

    /// Counts of refusals by limit, all of them zero.
    pub(super) fn counts(&self) -> BTreeMap<Box<str>, u64> {
        let rates = self.rates.iter().map(|rate| &rate.name);
        let repeats = self.repeats.iter().map(|repeats| &repeats.name);
        let errors = self.errors.iter().map(|errors| &errors.name);
        rates.chain(repeats).chain(errors).map(|name| (name.clone(), 0)).collect()
    }

    /// The most bytes that following these limits takes.
    pub(super) const fn most_held(&self) -> usize {
        let failing = if self.errors.is_some() { 2 * MAX_FAILING * size_of::<Failing>() } else { 0 };
        self.rates.len() * Window::MOST_HELD + failing
    }
}

/// What has been counted for the limits of a relay.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    rules: LimitRules,
    /// One for each of the rules.
    windows: Vec<Window>,
    /// The client's last request, and how often it was made in a row.
    last: Option<(u64, u32)>,
    failing: Vec<Failing>,
    seed: Seed,
}

/// A method and tool whose last answers were errors.
#[derive(Clone, Copy, Debug)]
struct Failing {
    of: (Method, Method),
    /// How many.
    errors: u32,
    /// When the last of them came, or when a request last passed all the same.
    at: Instant,
}

/// A request, as far as limits ask.
#[derive(Debug)]
struct Asked<'a> {
    from: Side,
    method: &'a str,
    tool: Option<&'a str>,
    /// The same two as an exchange has them.
    of: (Method, Method),
    params: &'a Params<'a>,
    is_upkeep: bool,
}

/// The limit that a request exceeds.
#[derive(Debug)]
struct Exceeded {
    name: Box<str>,
    /// What a model or a person is to read of it.
    words: String,
}

impl Limits {
    pub(super) fn new(rules: &LimitRules, seed: Seed) -> Option<Box<Self>> {
        let windows = rules.rates.iter().map(|_| Window::default()).collect();
        let limits = Self { rules: rules.clone(), windows, last: None, failing: Vec::new(), seed };
        (!rules.is_empty()).then(|| Box::new(limits))
    }

    /// Counts a request, unless it exceeds a limit.
    fn admit(&mut self, now: Instant, asked: &Asked<'_>) -> Result<(), Exceeded> {
        let watched = asked.from == Side::Client && !asked.is_upkeep;
        // What is refused is part of the row, too: the client asked for it.
        if watched {
            self.check_repeats(asked)?;
        }
        let failing = if watched { self.failing_too_often(now, asked)? } else { None };
        let is_for = |rate: &RateLimit| match (&rate.method, &rate.tool) {
            (None, _) => watched,
            (Some(method), None) => **method == *asked.method,
            (Some(method), tool) => **method == *asked.method && asked.tool == tool.as_deref(),
        };
        for (rate, window) in self.rules.rates.iter().zip(&mut self.windows).filter(|(rate, _)| is_for(rate)) {
            if let Some(due) = window.full_until(now, rate.most, rate.per) {
                return Err(rate.exceeded(due.since(now)));
            }
        }
        for (rate, window) in self.rules.rates.iter().zip(&mut self.windows).filter(|(rate, _)| is_for(rate)) {
            window.add(now, rate.per);
        }
        if let Some(place) = failing {
            self.failing[place].at = now;
        }
        Ok(())
    }

    fn check_repeats(&mut self, asked: &Asked<'_>) -> Result<(), Exceeded> {
        let Some(RepeatLimit { name, most }) = &self.rules.repeats else { return Ok(()) };
        let print = self.seed.hash(&(asked.method, fingerprint::of(self.seed, asked.params)));
        let (last, times) = self.last.get_or_insert((print, 0));
        *times = if *last == print { times.saturating_add(1) } else { 1 };
        *last = print;
        if *times <= *most {
            return Ok(());
        }
        let (what, times) = (asked.words(), count(*most, "time", "times"));
        let why = format!("{what} was asked for with the same arguments {times} in a row");
        Err(Exceeded::new(name, &why, "until a different request is made"))
    }

    /// The place of a request's method and tool among those that fail too often, if this one may be tried all the same.
    fn failing_too_often(&self, now: Instant, asked: &Asked<'_>) -> Result<Option<usize>, Exceeded> {
        let Some(ErrorLimit { name, most, pause }) = &self.rules.errors else { return Ok(None) };
        let is_meant = |failing: &Failing| failing.of == asked.of && failing.errors >= *most;
        let Some(place) = self.failing.iter().position(is_meant) else { return Ok(None) };
        let passed = now.since(self.failing[place].at);
        if passed >= *pause {
            return Ok(Some(place));
        }
        let what = asked.words();
        let why = match *most {
            1 => format!("the last answer to {what} was an error"),
            most => format!("the last {most} answers to {what} were errors"),
        };
        Err(Exceeded::new(name, &why, &for_the_next(*pause - passed)))
    }

    /// Takes in whether the answer to a request of the client was an error.
    fn learn(&mut self, now: Instant, of: (Method, Method), is_error: bool) {
        let place = self.failing.iter().position(|failing| failing.of == of);
        match place {
            Some(place) if is_error => {
                let failing = &mut self.failing[place];
                (failing.errors, failing.at) = (failing.errors.saturating_add(1), now);
            }
            Some(place) => drop(self.failing.swap_remove(place)),
            None if is_error => {
                if self.failing.len() == MAX_FAILING
                    && let Some(oldest) = (0..MAX_FAILING).min_by_key(|place| self.failing[*place].at)
                {
                    self.failing.swap_remove(oldest);
                }
                self.failing.push(Failing { of, errors: 1, at: now });
            }
            None => {}
        }
    }

    /// Bytes of memory held.
    pub(super) fn held(&self) -> usize {
        self.windows.iter().map(Window::held).sum::<usize>() + self.failing.capacity() * size_of::<Failing>()
    }

    /// Feeds what decides the future into a hasher.
    pub(super) fn hash_state(&self, now: Instant, state: &mut impl Hasher) {
        self.last.hash(state);
        self.windows.iter().for_each(|window| window.hash_state(now, state));
        for Failing { of, errors, at } in &self.failing {
            (of, errors, now.since(*at)).hash(state);
        }
    }
}

impl RateLimit {
    fn exceeded(&self, left: Duration) -> Exceeded {
        let what = match (&self.method, &self.tool) {
            (None, _) => "of the client".into(),
            (Some(method), None) => format!("for {method}"),
            (Some(method), Some(tool)) => format!("for {method}:{tool}"),
        };
        let most = count(self.most, "request", "requests");
        let why = format!("at most {most} {what} may pass within {:?}", self.per);
        Exceeded::new(&self.name, &why, &for_the_next(left))
    }
}

impl Exceeded {
    fn new(name: &str, why: &str, how_long: &str) -> Self {
        let words = format!(
            "refused by a limit that was set for this server (rescind {name}): {why}. This request was not sent to the \
             server. Do not retry: retries are refused, too, {how_long}"
        );
        Self { name: name.into(), words }
    }
}

impl Asked<'_> {
    /// The method and the tool, as an answer quotes them.
    fn words(&self) -> String {
        let method = sanitised(cut(self.method, MAX_QUOTED));
        match self.tool {
            Some(tool) => format!("{method}:{}", sanitised(cut(tool, MAX_QUOTED))),
            None => method,
        }
    }
}

fn count(count: u32, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

/// How long that is, in whole seconds: no reader should come back too early.
fn for_the_next(left: Duration) -> String {
    let secs = u32::try_from(left.as_secs() + u64::from(left.subsec_nanos() > 0)).unwrap_or(u32::MAX);
    format!("for the next {}", count(secs, "second", "seconds"))
}

impl Relay {
    /// Ends a request that exceeds a limit, and returns whether it does.
    #[cold]
    pub(super) fn ends_at_limit(
        &mut self,
        now: Instant,
        request: RequestKey,
        method: &str,
        params: &Params<'_>,
    ) -> bool {
        let Some(exchange) = self.tables[request.from].get(request.key) else { return false };
        let Some(limits) = &mut self.core.limits else { return false };
        let tool = params.name.and_then(json::text);
        let is_upkeep = exchange.dialect.upkeep.contains(&method);
        let of = (exchange.method, exchange.name);
        let asked = Asked { from: request.from, method, tool: tool.as_deref(), of, params, is_upkeep };
        let Err(exceeded) = limits.admit(now, &asked) else { return false };
        self.step(now, request, |step| step.end_at_limit(&exceeded));
        true
    }
}

impl Step<'_> {
    fn end_at_limit(&mut self, Exceeded { name, words }: &Exceeded) {
        *self.core.reports.tally.limited.entry(name.clone()).or_default() += 1;
        self.cancel_upstream(Cause::by(CauseCode::Policy, Some(name)));
        // A client takes an answer for the handle of a task that it has asked for: only an error is none.
        match self.exchange.dialect.failure.filter(|form| form.method == self.method() && !self.exchange.is_task) {
            Some(form) => {
                let mut result = form.written(words);
                if let Some(cancel) = &self.exchange.cancel {
                    result.extend_from_slice(br#","_meta":{"rescind/receipt":"#);
                    write_receipt(&cancel.receipt, &mut result);
                    result.push(b'}');
                }
                result.push(b'}');
                self.answer(Settled::AnsweredHere { code: None }, |id, out| message::result(id, &result, out));
            }
            None => {
                let data = self.error_data(None);
                self.answer_error(error_code::LIMITED, words, Some(&data));
            }
        }
        self.report_decided();
    }

    /// Takes in an answer of the other side. One to a request that was cancelled shows nothing about the work.
    #[cold]
    pub(super) fn answered_for_limits(&mut self, body: &ResponseBody<'_>) {
        let form = self.exchange.upstream_dialect.failure.filter(|form| form.method == self.method());
        let is_error = match body {
            ResponseBody::Error(_) => {
                // The protocols' own words for work that was given up or overtaken.
                let given_up =
                    [error_code::REQUEST_CANCELLED, error_code::CONTENT_MODIFIED, error_code::SERVER_CANCELLED];
                let code = body.error_code();
                (!given_up.iter().any(|given_up| code == Some(i64::from(*given_up)))).then_some(true)
            }
            ResponseBody::Result(result) => form.map_or(Some(false), |form| form.is_in(result)),
        };
        if let Some(is_error) = is_error
            && self.exchange.cancel.is_none()
            && !self.exchange.is_task
        {
            self.learn_for_limits(is_error);
        }
    }

    /// Takes in whether a request of the client ended with an error of its work.
    pub(super) fn learn_for_limits(&mut self, is_error: bool) {
        let is_upkeep = self.exchange.dialect.upkeep.contains(&self.method());
        if let Some(limits) = &mut self.core.limits
            && limits.rules.errors.is_some()
            && self.request.from == Side::Client
            && !is_upkeep
        {
            limits.learn(self.now, (self.exchange.method, self.exchange.name), is_error);
        }
    }
}

impl FailureForm {
    /// A result with these words about work that failed, up to the brace that closes it.
    fn written(&self, words: &str) -> Vec<u8> {
        let mut out = self.before.as_bytes().to_vec();
        json::write_string(&mut out, words);
        out.extend_from_slice(self.after.as_bytes());
        out
    }

    /// Whether a result is that of work that failed; `None` if it is not the end of the work.
    fn is_in(&self, result: &[u8]) -> Option<bool> {
        let says = |(member, value): (&str, &str)| json::member(result, member).map(|found| found == value.as_bytes());
        let is_whole = self.whole.and_then(says).unwrap_or(true);
        is_whole.then(|| says(self.mark).unwrap_or(false))
    }
}

#[cfg(test)]
mod tests {
    use rescind_testkit::tamper::every_change_shows;

    use super::*;

    #[test]
    fn every_count_shows_in_the_hash() {
        let rate = RateLimit { name: "a".into(), method: None, tool: None, most: 3, per: Duration::from_secs(1) };
        let repeats = RepeatLimit { name: "b".into(), most: 1 };
        let rules = LimitRules { rates: vec![rate], repeats: Some(repeats), errors: None };
        let mut limits = Limits::new(&rules, Seed::new(0)).expect("there are some");
        let (now, second) = (Instant::ORIGIN + Duration::from_secs(9), Duration::from_secs(1));
        limits.windows[0].add(now, second);
        limits.last = Some((1, 1));
        limits.learn(now, (Method::OTHER, Method::OTHER), true);
        every_change_shows(
            &*limits,
            |limits, state| limits.hash_state(now, state),
            &[
                ("what has passed", |limits| limits.windows[0].add(Instant::ORIGIN, Duration::from_secs(1))),
                ("which request was the last", |limits| limits.last = Some((2, 1))),
                ("how often it was made", |limits| limits.last = Some((1, 2))),
                ("how often a tool failed", |limits| limits.failing[0].errors = 2),
                ("when it failed", |limits| limits.failing[0].at = Instant::ORIGIN),
                ("which one failed", |limits| limits.failing.clear()),
            ],
        );
    }

    #[test]
    fn the_tool_that_failed_longest_ago_is_forgotten() {
        let mut limits = Limits::new(&rules(), Seed::new(0)).expect("there are some");
        let mut methods = crate::method::Methods::new(Seed::new(0));
        let names: Vec<_> = (0..=MAX_FAILING).map(|at| (Method::OTHER, methods.intern(&at.to_string()))).collect();
        for (second, of) in (0..).zip(&names) {
            limits.learn(Instant::ORIGIN + Duration::from_secs(second), *of, true);
        }
        assert_eq!(limits.failing.len(), MAX_FAILING);
        assert!(!limits.failing.iter().any(|failing| failing.of == names[0]));
    }

    fn rules() -> LimitRules {
        let errors = ErrorLimit { name: "c".into(), most: 1, pause: Duration::from_secs(1) };
        LimitRules { errors: Some(errors), ..LimitRules::default() }
    }
}
