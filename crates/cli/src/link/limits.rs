//! The values of `--timeout`, `--total-timeout` and `--finish`.

use std::time::Duration;

use rescind_proto::{link::Clock, relay::ClockRule};

use crate::{duration, selector::Selector};

/// `10s`, `tools/call=2m` or `tools/call:slow_tool=10m`, for either clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LimitArg {
    selector: Option<Selector>,
    limit: Duration,
}

impl LimitArg {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        // A tool's name may contain `=`, so the duration follows the last one.
        let (selector, limit) = match text.rsplit_once('=') {
            Some((selector, limit)) => (Some(Selector::parse(selector)?), limit),
            None if text.contains(['/', ':']) => {
                return Err("has no duration; write METHOD=DURATION or METHOD:TOOL=DURATION".into());
            }
            None => (None, text),
        };
        if selector.as_ref().is_some_and(|selector| selector.method.contains('=')) {
            return Err("has two `=`; write METHOD=DURATION or METHOD:TOOL=DURATION".into());
        }
        let limit = duration::parse(limit)?;
        if limit.is_zero() {
            return Err("must be longer than zero; for no limit, leave the flag out".into());
        }
        Ok(Self { selector, limit })
    }

    /// The rules of one clock. Of several for the same requests the last one counts, as users of other flags expect.
    pub(super) fn rules(limits: &[Self], clock: Clock) -> impl Iterator<Item = ClockRule> {
        let later = |place: usize| &limits[place + 1..];
        let last = limits
            .iter()
            .enumerate()
            .filter(move |(place, limit)| later(*place).iter().all(|other| other.selector != limit.selector));
        last.map(move |(_, limit)| {
            let Self { selector, limit } = limit.clone();
            let (method, name) = selector.map_or((None, None), |selector| (Some(selector.method), selector.name));
            ClockRule { clock, method, name, limit }
        })
    }
}

/// `30s`, or `never`: `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FinishArg(pub(crate) Option<Duration>);

impl FinishArg {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        duration::parse_or_never(text).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> Vec<ClockRule> {
        let limits: Vec<LimitArg> = texts.iter().map(|text| LimitArg::parse(text).unwrap()).collect();
        LimitArg::rules(&limits, Clock::Total).collect()
    }

    fn rule(method: Option<&str>, name: Option<&str>, secs: u64) -> ClockRule {
        let (method, name) = (method.map(Into::into), name.map(Into::into));
        ClockRule { clock: Clock::Total, method, name, limit: Duration::from_secs(secs) }
    }

    #[test]
    fn a_limit_may_name_a_method_and_a_tool() {
        assert_eq!(rules(&["10s"]), [rule(None, None, 10)]);
        assert_eq!(rules(&["tools/call=2m"]), [rule(Some("tools/call"), None, 120)]);
        assert_eq!(rules(&["tools/call:slow_tool=10m"]), [rule(Some("tools/call"), Some("slow_tool"), 600)]);
        assert_eq!(rules(&["tools/call:a=b:c=1h 30m"]), [rule(Some("tools/call"), Some("a=b:c"), 5400)]);
    }

    #[test]
    fn of_two_limits_for_the_same_requests_the_last_one_counts() {
        let both = rules(&["1s", "tools/call=2s", "3s", "tools/call:a=4s", "tools/call=5s"]);
        let last = [rule(None, None, 3), rule(Some("tools/call"), Some("a"), 4), rule(Some("tools/call"), None, 5)];
        assert_eq!(both, last);
    }

    #[test]
    fn an_invalid_limit_is_refused() {
        for (text, problem) in [
            ("", "not a duration"),
            ("10", "has no unit"),
            ("s", "not a duration"),
            ("0s", "must be longer than zero; for no limit, leave the flag out"),
            ("=10s", "has no method"),
            (":x=10s", "has no method"),
            ("tools/call=", "not a duration"),
            ("tools/call:=5s", "has no tool after the `:`"),
            ("a=b=2s", "has two `=`"),
            ("tools/call", "has no duration; write METHOD=DURATION"),
            ("tools/call:x", "has no duration; write METHOD=DURATION"),
            ("-1s", "must not be negative"),
            ("tools/call=-1s", "must not be negative"),
        ] {
            let error = LimitArg::parse(text).unwrap_err();
            assert!(error.starts_with(problem), "{text:?}: {error}");
        }
    }

    #[test]
    fn finish_may_be_never() {
        assert_eq!(FinishArg::parse("never"), Ok(FinishArg(None)));
        assert_eq!(FinishArg::parse("2m"), Ok(FinishArg(Some(Duration::from_secs(120)))));
        assert!(FinishArg::parse("ever").is_err());
    }
}
