//! Values of flags that set limits: durations and sizes.

use std::time::Duration;

use rescind_proto::{link::Clock, relay::ClockRule};

/// `10s`, `tools/call=2m` or `tools/call:slow_tool=10m`, for either clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LimitArg {
    method: Option<Box<str>>,
    name: Option<Box<str>>,
    limit: Duration,
}

impl LimitArg {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        // A tool's name may contain `=`, so the duration follows the last one.
        let (request, limit) = match text.rsplit_once('=') {
            Some((request, limit)) => (Some(request), limit),
            None => (None, text),
        };
        let limit = duration(limit)?;
        if limit.is_zero() {
            return Err("must be longer than zero".into());
        }
        let (method, name) = match request.map(|request| request.split_once(':').unwrap_or((request, ""))) {
            None => (None, None),
            Some(("", _)) => return Err("has no method before the `=`; write METHOD=DURATION".into()),
            Some((method, "")) => (Some(method.into()), None),
            Some((method, name)) => (Some(method.into()), Some(name.into())),
        };
        Ok(Self { method, name, limit })
    }

    pub(super) fn on(self, clock: Clock) -> ClockRule {
        let Self { method, name, limit } = self;
        ClockRule { clock, method, name, limit }
    }
}

/// `30s`, or `never`: `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FinishArg(pub(super) Option<Duration>);

impl FinishArg {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text == "never" { Ok(Self(None)) } else { duration(text).map(|limit| Self(Some(limit))) }
    }
}

/// `500ms`, `5s`, `2m`, `1h30m`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write 500ms, 10s, 2m or 1h"))
}

/// `67108864`, `64MiB`, `64MB`.
pub(super) fn size(text: &str) -> Result<usize, String> {
    const UNITS: [(&str, usize); 8] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("kB", 1_000),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("B", 1),
    ];
    let (number, unit) =
        UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes))).unwrap_or((text, 1));
    let size = number.trim().parse::<usize>().ok().and_then(|number| number.checked_mul(unit));
    size.filter(|size| *size > 0).ok_or_else(|| "write a number of bytes, or one with KiB, MiB or GiB".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_may_name_a_method_and_a_tool() {
        let parsed = |text| LimitArg::parse(text).map(|limit| limit.on(Clock::Total));
        let rule = |method: Option<&str>, name: Option<&str>, secs| {
            let (method, name) = (method.map(Into::into), name.map(Into::into));
            Ok(ClockRule { clock: Clock::Total, method, name, limit: Duration::from_secs(secs) })
        };
        assert_eq!(parsed("10s"), rule(None, None, 10));
        assert_eq!(parsed("tools/call=2m"), rule(Some("tools/call"), None, 120));
        assert_eq!(parsed("tools/call:slow_tool=10m"), rule(Some("tools/call"), Some("slow_tool"), 600));
        assert_eq!(parsed("tools/call:a=b:c=1h 30m"), rule(Some("tools/call"), Some("a=b:c"), 5400));
    }

    #[test]
    fn an_invalid_limit_is_refused() {
        for text in ["", "10", "s", "0s", "=10s", ":x=10s", "tools/call=", "-1s"] {
            assert!(LimitArg::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn finish_may_be_never() {
        assert_eq!(FinishArg::parse("never"), Ok(FinishArg(None)));
        assert_eq!(FinishArg::parse("2m"), Ok(FinishArg(Some(Duration::from_secs(120)))));
        assert!(FinishArg::parse("ever").is_err());
    }

    #[test]
    fn a_size_has_a_unit_or_is_in_bytes() {
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size("1000"), Ok(1000));
        assert_eq!(size("2 kB"), Ok(2000));
        for text in ["", "0", "MiB", "1.5MiB", "99999999999GiB", "-1"] {
            assert!(size(text).is_err(), "{text:?}");
        }
    }
}
