//! The flags that limit what is asked, against loops that run unwatched (D65).

use std::time::Duration;

use clap::Args;
use rescind_proto::relay::{ErrorLimit, LimitRules, RateLimit, RepeatLimit};

use crate::{duration, failure::Failure, number, selector::Selector};

/// Each one is looked at for each request.
const MOST: usize = 64;

/// The pause of `--limit-errors` without a DURATION.
const PAUSE: Duration = Duration::from_secs(60);

/// Limits on what is asked.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct LimitArguments {
    /// Pass on at most N requests in any DURATION, and refuse further ones at once: they do not reach the server, and are
    /// answered with an error that names the limit (a call of an MCP tool with a failed result, which models read). N/DURATION is
    /// for every request of the client except those that open or keep a session, or follow or end work, such as `ping` or
    /// `tasks/cancel`. METHOD=N/DURATION and METHOD:TOOL=N/DURATION also apply to requests of the server. May be repeated:
    /// each of the limits holds. Counted for each session; in a protocol that is `unknown` nothing is refused
    #[arg(long, value_name = "[METHOD[:TOOL]=]N/DURATION", value_parser = RateArg::parse, allow_hyphen_values = true)]
    limit: Vec<RateArg>,

    /// Pass on the same request of the client (its method and arguments) at most N times in a row, and refuse it until the
    /// client makes a different one
    #[arg(long, value_name = "N", value_parser = number::small_count, allow_hyphen_values = true)]
    limit_repeats: Option<u32>,

    /// Once N answers in a row to requests for a METHOD, or for a TOOL of it, were errors or failed results, refuse further
    /// ones. After each DURATION (1m, if left out) one is passed on; if it succeeds, the limit is over
    #[arg(long, value_name = "N[/DURATION]", value_parser = ErrorsArg::parse, allow_hyphen_values = true)]
    limit_errors: Option<ErrorsArg>,
}

/// `10/1m`, `tools/call=10/1m` or `tools/call:search=10/1m`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RateArg {
    text: String,
    selector: Option<Selector>,
    most: u32,
    per: Duration,
}

/// `5` or `5/10m`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ErrorsArg {
    text: String,
    most: u32,
    pause: Duration,
}

impl LimitArguments {
    /// Refuses more limits than are looked at.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.limit.len() <= MOST {
            return Ok(());
        }
        let cause = format_args!("is given {} times", self.limit.len());
        Err(Failure::new("--limit", cause, format_args!("give at most {MOST} limits")))
    }

    /// Returns whether there is none.
    pub(crate) const fn is_empty(&self) -> bool {
        self.limit.is_empty() && self.limit_repeats.is_none() && self.limit_errors.is_none()
    }

    /// The words that give these flags to `rescind run`.
    pub(crate) fn words(&self) -> Vec<String> {
        let rates = self.limit.iter().map(|rate| ("--limit", rate.text.clone()));
        let repeats = self.limit_repeats.iter().map(|most| ("--limit-repeats", most.to_string()));
        let errors = self.limit_errors.iter().map(|errors| ("--limit-errors", errors.text.clone()));
        rates.chain(repeats).chain(errors).flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
    }

    /// The limits of the relay machine.
    pub(super) fn rules(&self) -> LimitRules {
        let rate = |RateArg { text, selector, most, per }: &RateArg| {
            let (method, tool) =
                selector.clone().map_or((None, None), |Selector { method, name }| (Some(method), name));
            RateLimit { name: format!("--limit {text}").into(), method, tool, most: *most, per: *per }
        };
        let repeats = |most| RepeatLimit { name: format!("--limit-repeats {most}").into(), most };
        let errors = |ErrorsArg { text, most, pause }: &ErrorsArg| {
            let name = format!("--limit-errors {text}").into();
            ErrorLimit { name, most: *most, pause: *pause }
        };
        LimitRules {
            rates: self.limit.iter().map(rate).collect(),
            repeats: self.limit_repeats.map(repeats),
            errors: self.limit_errors.as_ref().map(errors),
        }
    }
}

impl RateArg {
    fn parse(text: &str) -> Result<Self, String> {
        const FORMS: &str = "write N/DURATION, METHOD=N/DURATION or METHOD:TOOL=N/DURATION";
        // A tool's name may contain `=`, so the limit follows the last one.
        let (selector, rate) = match text.rsplit_once('=') {
            Some((selector, rate)) => (Some(Selector::parse(selector)?), rate),
            None => (None, text),
        };
        if selector.as_ref().is_some_and(|selector| selector.method.contains('=')) {
            return Err(format!("has two `=`; {FORMS}"));
        }
        let (most, per) = rate.split_once('/').ok_or_else(|| format!("has no DURATION; {FORMS}"))?;
        if selector.is_none() && most.starts_with(|c: char| c.is_alphabetic() || c == '$') {
            return Err(format!("has no limit; {FORMS}"));
        }
        Ok(Self { text: text.to_owned(), selector, most: number::small_count(most)?, per: longer_than_zero(per)? })
    }
}

impl ErrorsArg {
    fn parse(text: &str) -> Result<Self, String> {
        let (most, pause) = match text.split_once('/') {
            Some((most, pause)) => (most, longer_than_zero(pause)?),
            None => (text, PAUSE),
        };
        Ok(Self { text: text.to_owned(), most: number::small_count(most)?, pause })
    }
}

fn longer_than_zero(text: &str) -> Result<Duration, String> {
    let duration = duration::parse(text)?;
    if duration.is_zero() { Err("its DURATION must be longer than zero".into()) } else { Ok(duration) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_may_name_a_method_and_a_tool() {
        let rate = |text: &str| {
            let RateArg { selector, most, per, .. } = RateArg::parse(text).unwrap();
            (selector.map(|selector| selector.to_string()), most, per.as_secs())
        };
        assert_eq!(rate("10/1m"), (None, 10, 60));
        assert_eq!(rate("tools/call=1/1h 30m"), (Some("tools/call".into()), 1, 5400));
        assert_eq!(rate("tools/call:a=b/c=3/1s"), (Some("tools/call:a=b/c".into()), 3, 1));
    }

    #[test]
    fn a_value_that_makes_no_sense_is_refused_with_what_does() {
        for (text, problem) in [
            ("", "has no DURATION; write N/DURATION"),
            ("10", "has no DURATION; write N/DURATION"),
            ("tools/call", "has no limit; write N/DURATION"),
            ("tools/call=10", "has no DURATION; write N/DURATION"),
            ("tools/call=/1m", "must be a whole number from 1"),
            ("0/1m", "must be a whole number from 1"),
            ("-1/1m", "must be a whole number from 1"),
            ("1.5/1m", "must be a whole number from 1"),
            ("10/0s", "its DURATION must be longer than zero"),
            ("10/60", "has no unit"),
            ("10/-1s", "must not be negative"),
            ("=10/1m", "has no method"),
            ("tools/call:=10/1m", "has no tool after the `:`"),
            ("a=b=10/1m", "has two `=`"),
        ] {
            let error = RateArg::parse(text).unwrap_err();
            assert!(error.starts_with(problem), "{text:?}: {error}");
        }
        for (text, problem) in
            [("", "must be a whole"), ("0", "must be a whole"), ("3/soon", "not a duration"), ("3/0s", "its DURATION")]
        {
            let error = ErrorsArg::parse(text).unwrap_err();
            assert!(error.starts_with(problem), "{text:?}: {error}");
        }
        assert_eq!(ErrorsArg::parse("3").unwrap().pause, PAUSE);
        assert_eq!(ErrorsArg::parse("3/10s").unwrap().pause, Duration::from_secs(10));
    }
}
