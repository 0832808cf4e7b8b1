//! The values of `--grace`.

use std::time::Duration;

use rescind_proto::{
    dialect::{acp, codex},
    relay::{GraceRule, RelayConfig},
};

use crate::{duration, failure::Failure};

/// `5s`, or `session/prompt=10s` (D61).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GraceArg {
    method: Option<String>,
    grace: Duration,
}

impl GraceArg {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (method, grace) = match text.split_once('=') {
            Some(("", _)) => return Err("has no method before the `=`".into()),
            // It would be the grace of nothing.
            Some((method, _)) if method.contains(':') => return Err("names a tool, and a grace is of a METHOD".into()),
            Some((method, grace)) => (Some(method.to_owned()), grace),
            None => (None, text),
        };
        Ok(Self { method, grace: duration::parse(grace)? })
    }

    /// Refuses a method's grace that is longer than without it: such a value would change nothing.
    pub(super) fn check(all: &[Self]) -> Result<(), Failure> {
        for Self { method, grace } in all {
            let Some(method) = method else { continue };
            let longest = longest(method, Self::general(all));
            if *grace > longest {
                let cause = format_args!("is longer than the {longest:?} that hold without it");
                let hint = "METHOD=DURATION can only shorten the grace of a method; --grace DURATION is for all";
                return Err(Failure::new(format_args!("--grace {method}={grace:?}"), cause, hint));
            }
        }
        Ok(())
    }

    /// The grace of the methods that are not named.
    pub(super) fn general(all: &[Self]) -> Duration {
        let last = all.iter().rfind(|one| one.method.is_none());
        last.map_or_else(|| RelayConfig::default().grace, |one| one.grace)
    }

    /// Those of single methods, the last of each first: the relay takes the first that matches.
    pub(super) fn rules(all: &[Self]) -> Vec<GraceRule> {
        let rule = |one: &Self| Some(GraceRule { method: one.method.as_deref()?.into(), grace: one.grace });
        all.iter().rev().filter_map(rule).collect()
    }
}

/// How long a cancelled request of this method may go unanswered where the general grace is this.
fn longest(method: &str, general: Duration) -> Duration {
    let turn = acp::V1.turn.filter(|turn| turn.prompt == method).map(|turn| turn.limit);
    let threads = codex::APP_SERVER.threads.filter(|threads| threads.starts.contains(&method));
    turn.or_else(|| threads.map(|threads| threads.limit)).map_or(general, |limit| limit.max(general))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(texts: &[&str]) -> Vec<GraceArg> {
        texts.iter().map(|text| GraceArg::parse(text).unwrap()).collect()
    }

    #[test]
    fn the_last_grace_of_each_method_counts() {
        let all = args(&["1s", "session/prompt=10s", "2s", "session/prompt=3s"]);
        assert_eq!(GraceArg::general(&all), Duration::from_secs(2));
        let first = GraceArg::rules(&all).into_iter().find(|rule| *rule.method == *"session/prompt").unwrap();
        assert_eq!(first.grace, Duration::from_secs(3));
        assert_eq!(GraceArg::general(&args(&["session/prompt=3s"])), Duration::from_secs(5), "the default stays");
    }

    #[test]
    fn a_method_may_only_have_a_shorter_grace() {
        for texts in [&["session/prompt=30s"][..], &["session/prompt=0s"], &["1m", "session/prompt=1m"], &["x=5s"]] {
            assert!(GraceArg::check(&args(texts)).is_ok(), "{texts:?}");
        }
        for texts in [&["session/prompt=31s"][..], &["x=6s"], &["1s", "x=2s"]] {
            assert!(GraceArg::check(&args(texts)).is_err(), "{texts:?}");
        }
    }

    #[test]
    fn an_invalid_grace_is_refused() {
        for (text, problem) in [
            ("", "not a duration"),
            ("=1s", "has no method before the `=`"),
            ("tools/call:index=1s", "names a tool, and a grace is of a METHOD"),
            ("session/prompt", "not a duration"),
            ("session/prompt=", "not a duration"),
            ("session/prompt=-1s", "must not be negative"),
        ] {
            let error = GraceArg::parse(text).unwrap_err();
            assert!(error.starts_with(problem), "{text:?}: {error}");
        }
    }
}
