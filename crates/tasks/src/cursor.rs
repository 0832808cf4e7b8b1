//! Where a list goes on: opaque to its reader, checked by us.

use crate::error::TaskError;

/// The place of the last task of a page, in the order of creation.
pub(crate) fn write(number: u64) -> String {
    format!("t{number:016x}")
}

/// The place after which a list goes on; from the beginning without a cursor.
pub(crate) fn read(cursor: Option<&str>) -> Result<u64, TaskError> {
    let Some(cursor) = cursor else { return Ok(0) };
    let digits = cursor.strip_prefix('t').filter(|digits| digits.len() == 16).ok_or(TaskError::BadCursor)?;
    // What a parser of numbers takes beyond digits, a sign say, we never wrote.
    if !digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(TaskError::BadCursor);
    }
    let number = u64::from_str_radix(digits, 16).map_err(|_| TaskError::BadCursor)?;
    // Numbers of a database end there.
    if number > i64::MAX.unsigned_abs() { Err(TaskError::BadCursor) } else { Ok(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_we_wrote_is_a_cursor() {
        assert_eq!(read(None).ok(), Some(0));
        assert_eq!(read(Some(&write(77))).ok(), Some(77));
        for bad in ["", "t", "77", "t+000000000000077", "t000000000000004D", "tffffffffffffffff", "t00000000000000771"]
        {
            assert!(matches!(read(Some(bad)), Err(TaskError::BadCursor)), "{bad}");
        }
    }
}
