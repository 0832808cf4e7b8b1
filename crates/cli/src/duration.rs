//! Durations on the command line.

use std::time::Duration;

use humantime::DurationError;

/// Reads `500ms`, `5s`, `2m` or `1h30m`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    read(text, "write 500ms, 10s, 2m or 1h")
}

/// Reads the same, or `never`: `None`.
pub(crate) fn parse_or_never(text: &str) -> Result<Option<Duration>, String> {
    if text == "never" { Ok(None) } else { read(text, "write 500ms, 10s, 2m or 1h, or never").map(Some) }
}

fn read(text: &str, remedy: &str) -> Result<Duration, String> {
    if text.starts_with('-') && text.contains(|c: char| c.is_ascii_digit()) {
        return Err(format!("must not be negative; {remedy}"));
    }
    humantime::parse_duration(text).map_err(|error| match error {
        DurationError::UnknownUnit { unit, .. } if unit.is_empty() && text.contains(char::is_alphabetic) => {
            format!("its last number has no unit; write, for example, {text}s")
        }
        DurationError::UnknownUnit { unit, .. } if unit.is_empty() => {
            format!("has no unit; write {text}s for seconds, {text}m for minutes, {text}ms for milliseconds")
        }
        DurationError::NumberOverflow => format!("is too long, or has too many digits; {remedy}"),
        DurationError::InvalidCharacter(_)
        | DurationError::NumberExpected(_)
        | DurationError::UnknownUnit { .. }
        | DurationError::Empty => format!("not a duration; {remedy}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_to_write() {
        for (text, problem) in [
            ("", "not a duration; write 500ms, 10s, 2m or 1h"),
            ("soon", "not a duration; write 500ms, 10s, 2m or 1h"),
            ("10x", "not a duration; write 500ms, 10s, 2m or 1h"),
            ("--log", "not a duration; write 500ms, 10s, 2m or 1h"),
            ("never", "not a duration; write 500ms, 10s, 2m or 1h"),
            ("10", "has no unit; write 10s for seconds, 10m for minutes, 10ms for milliseconds"),
            ("1h 10", "its last number has no unit; write, for example, 1h 10s"),
            ("5m30", "its last number has no unit; write, for example, 5m30s"),
            ("-1s", "must not be negative; write 500ms, 10s, 2m or 1h"),
            ("-1", "must not be negative; write 500ms, 10s, 2m or 1h"),
            ("99999999999999999999y", "is too long, or has too many digits; write 500ms, 10s, 2m or 1h"),
        ] {
            assert_eq!(parse(text), Err(problem.into()), "{text:?}");
        }
        assert_eq!(parse_or_never("ever"), Err("not a duration; write 500ms, 10s, 2m or 1h, or never".into()));
        assert_eq!(parse("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_or_never("2m"), Ok(Some(Duration::from_secs(120))));
        assert_eq!(parse_or_never("never"), Ok(None));
    }
}
