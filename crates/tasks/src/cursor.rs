//! Cursors of lists: opaque to clients, validated here.

use crate::error::TaskError;

/// Writes the number of a page's last task, in the order of creation.
pub(crate) fn write(number: u64) -> String {
    format!("t{number:016x}")
}

/// Reads the number after which a list continues: 0 without a cursor.
pub(crate) fn read(cursor: Option<&str>) -> Result<u64, TaskError> {
    let Some(cursor) = cursor else { return Ok(0) };
    let digits = cursor.strip_prefix('t').filter(|digits| digits.len() == 16).ok_or(TaskError::BadCursor)?;
    // `from_str_radix` would also accept a sign and capitals.
    if !digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(TaskError::BadCursor);
    }
    let number = u64::from_str_radix(digits, 16).map_err(|_| TaskError::BadCursor)?;
    // SQLite's integers end there.
    if number > i64::MAX.unsigned_abs() { Err(TaskError::BadCursor) } else { Ok(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_cursor_that_was_written_here_is_accepted() {
        assert_eq!(read(None).ok(), Some(0));
        assert_eq!(read(Some(&write(77))).ok(), Some(77));
        for bad in ["", "t", "77", "t+000000000000077", "t000000000000004D", "tffffffffffffffff", "t00000000000000771"]
        {
            assert!(matches!(read(Some(bad)), Err(TaskError::BadCursor)), "{bad}");
        }
    }
}
