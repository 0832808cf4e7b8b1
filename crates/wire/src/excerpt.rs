//! What cannot be read, quoted for whoever looks for the fault.

/// The most characters that are repeated of what a server said.
const MAX_EXCERPT: usize = 200;

/// What a peer said, on one line, cut after 200 characters, and without what a terminal would obey.
#[must_use]
pub fn excerpt(bytes: &[u8]) -> String {
    // More than enough, whatever the characters are.
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(16 * MAX_EXCERPT)]);
    let mut excerpt = String::new();
    let mut count = 0;
    for word in text.split(|character: char| character.is_whitespace() || is_hidden(character)) {
        if word.is_empty() {
            continue;
        }
        if !excerpt.is_empty() {
            excerpt.push(' ');
            count += 1;
        }
        for character in word.chars() {
            if count >= MAX_EXCERPT {
                excerpt.push('…');
                return excerpt;
            }
            excerpt.push(character);
            count += 1;
        }
    }
    excerpt
}

/// Whether a character does something in place of being seen.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_said_is_one_short_line() {
        assert_eq!(excerpt(b"  <html>\r\n\t<b>Bad\x1b[31m Gateway\x07</b> "), "<html> <b>Bad [31m Gateway </b>");
        assert_eq!(excerpt(b""), "");
        assert_eq!(excerpt(b"\x00\n "), "");
        assert_eq!(excerpt("a\u{202E}b\u{FEFF}".as_bytes()), "a b");
        let long = excerpt("é ".repeat(100_000).as_bytes());
        assert_eq!((long.chars().count(), long.ends_with('…')), (MAX_EXCERPT + 1, true));
        assert!(excerpt(&[0xFF; 5000]).starts_with('\u{FFFD}'));
    }
}
