//! A time of day as tasks have it (TASK-09).

use core::time::Duration;

const SECONDS_A_DAY: u64 = 24 * 60 * 60;

/// Days in the four hundred years after which the calendar repeats itself.
const DAYS_A_CYCLE: u64 = 146_097;

/// Writes the time that long after the beginning of 1970 (UTC) as RFC 3339 has it, to the second.
pub(super) fn text(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs();
    let (days, second) = (seconds / SECONDS_A_DAY, seconds % SECONDS_A_DAY);
    // Counted from the first of March of the year 0, so that a leap day is the last of its year.
    let days = days + 719_468;
    let (cycle, day) = (days / DAYS_A_CYCLE, days % DAYS_A_CYCLE);
    let year = (day - day / 1_460 + day / 36_524 - day / (DAYS_A_CYCLE - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, is_next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = 400 * cycle + year + is_next;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_rfc_3339() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_764_000_000, "2025-11-24T16:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(text(Duration::from_secs(seconds)), expected);
        }
    }
}
