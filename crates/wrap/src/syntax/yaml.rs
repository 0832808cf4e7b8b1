//! Reads YAML.
//!
//! What an anchor, an alias, a merge key or a tag takes part in is read as strange: a change of it would change another
//! place, too, or would not mean what it seems to mean. The rest of such a file is read as usual.

use std::{collections::HashSet, fmt::Write, ops::Range, vec};

use granit_parser::{Event, Parser, ScalarStyle, StructureStyle, options};

use super::SyntaxError;
use crate::tree::{Member, Node, Object, Value};

/// Why something is strange, if it is.
type Why = Option<&'static str>;

const SHARED: &str =
    "another place repeats it by an alias (`*`); write it out there, or put the shim before it by hand";
const ALIAS: &str = "its command or an argument is an alias (`*`); write that out, or put the shim before it by hand";
const PROPERTY: &str = "its command or an argument has an anchor (`&`) or a tag (`!`); take that away, or put the shim \
                        before it by hand";
const MERGE: &str = "a merge key (`<<`) brings a part of it; write that out, or put the shim before it by hand";
const KEY: &str = "one of its keys is not one word and a colon; put the shim before it by hand";
const UNCERTAIN: &str = "its letters are not where the parser found them; put the shim before it by hand";

/// Words that are not text where they stand without quotes, in YAML 1.1 or 1.2.
const RESERVED: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

/// Reads all documents of a text as one: clients that read several do so, and the others refuse the file.
pub(super) fn read(text: &str) -> Result<Node, SyntaxError> {
    let mut events = Vec::new();
    for next in Parser::new_from_str_with_options(text, options! { emit_comments: false }) {
        let (event, span) = next.map_err(|error| {
            SyntaxError::at(text, error.marker().byte_offset().unwrap_or_default(), error.kind().to_string())
        })?;
        events.push((event, span.byte_range().unwrap_or_default()));
    }
    let alias = |(event, _): &(Event<'_>, _)| if let Event::Alias(anchor) = event { Some(*anchor) } else { None };
    let aliased = events.iter().filter_map(alias).collect();
    let mut reader = Reader { text, aliased, events: events.into_iter() };
    let mut root = Object::default();
    while let Some((event, range)) = reader.events.next() {
        if event.is_node()
            && let Value::Object(document) = reader.node(event, range, None)?.value
        {
            root.members.extend(document.members);
        }
    }
    Ok(Node { range: 0..text.len(), value: Value::Object(root) })
}

/// A string in double quotes, as JSON writes it, without the characters that YAML does not allow there.
pub(super) fn escaped(json: &str) -> String {
    let mut done = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            ' '..='~' | '\u{a0}'..='\u{2027}' | '\u{202a}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}' | '\u{10000}'.. => {
                done.push(letter);
            }
            _ => {
                let _ = write!(done, "\\u{:04X}", u32::from(letter));
            }
        }
    }
    done
}

/// Whether this key needs no quotes.
pub(super) fn is_plain_key(key: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    key.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && key.bytes().all(is_word)
        && !RESERVED.contains(&&*key.to_ascii_lowercase())
}

struct Reader<'a> {
    text: &'a str,
    /// The anchors that an alias names.
    aliased: HashSet<usize>,
    events: vec::IntoIter<(Event<'a>, Range<usize>)>,
}

impl Reader<'_> {
    /// Reads the node that begins with this event. `inside`: why everything in it is strange.
    fn node(&mut self, event: Event<'_>, range: Range<usize>, inside: Why) -> Result<Node, SyntaxError> {
        match event {
            Event::Scalar(value, style, anchor, tag) => {
                let own = (anchor != 0 || tag.is_some()).then_some(PROPERTY);
                Ok(self.scalar(&value, style, range, inside.or_else(|| self.shared(anchor)).or(own)))
            }
            Event::SequenceStart(style, anchor, tag) => {
                let why = inside.or_else(|| self.shared(anchor)).or_else(|| tag.map(|_| PROPERTY));
                self.sequence(style, range, why)
            }
            Event::MappingStart(style, anchor, tag) => {
                let why = inside.or_else(|| self.shared(anchor)).or_else(|| tag.map(|_| PROPERTY));
                self.mapping(style, range, why)
            }
            // Of these only an alias stands in the place of a node.
            Event::Alias(_)
            | Event::UnresolvedAlias(_)
            | Event::Anchor(..)
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(..)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd
            | _ => Ok(Node { range, value: Value::Strange(inside.unwrap_or(ALIAS)) }),
        }
    }

    fn shared(&self, anchor: usize) -> Why {
        (anchor != 0 && self.aliased.contains(&anchor)).then_some(SHARED)
    }

    fn scalar(&self, value: &str, style: ScalarStyle, range: Range<usize>, why: Why) -> Node {
        let letters = self.text.get(range.clone()).unwrap_or_default().trim_end();
        let end = range.start + letters.len();
        let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        let start = if is_block { self.header(range.start) } else { Some(range.start) };
        let range = start.unwrap_or(end)..end;
        let is_where_it_seems = match style {
            // A line of it is written as it is read, and what is not written at all is nothing.
            ScalarStyle::Plain => letters.contains(['\n', '\r']) || letters == value || letters.is_empty(),
            ScalarStyle::SingleQuoted => letters.len() > 1 && letters.starts_with('\'') && letters.ends_with('\''),
            ScalarStyle::DoubleQuoted => letters.len() > 1 && letters.starts_with('"') && letters.ends_with('"'),
            ScalarStyle::Literal | ScalarStyle::Folded => start.is_some(),
        };
        let value = match why.or_else(|| (!is_where_it_seems).then_some(UNCERTAIN)) {
            Some(why) => Value::Strange(why),
            None if style == ScalarStyle::Plain => plain(letters, value),
            None => Value::String(value.to_owned()),
        };
        Node { range, value }
    }

    /// Where the `|` or `>` of a text stands whose first letter is here.
    fn header(&self, content: usize) -> Option<usize> {
        let before = self.text.get(..content)?.trim_end();
        let line = before.rfind(['\n', '\r']).map_or(0, |at| at + 1);
        let header = before[line..].split(" #").next()?;
        Some(line + header.rfind(['|', '>'])?)
    }

    fn sequence(&mut self, style: StructureStyle, begin: Range<usize>, why: Why) -> Result<Node, SyntaxError> {
        let mut elements = Vec::new();
        let mut end = begin.end;
        while let Some((event, range)) = self.events.next() {
            if event == Event::SequenceEnd {
                end = range.end;
                break;
            }
            elements.push(self.node(event, range, why)?);
        }
        let range = match (style, elements.as_slice()) {
            (StructureStyle::Block, [first, .., last]) => first.range.start..last.range.end,
            (StructureStyle::Block, [only]) => only.range.clone(),
            (StructureStyle::Block, []) | (StructureStyle::Flow, _) => begin.start..end,
        };
        // Of objects each has the reason by itself.
        let has_objects = elements.iter().any(|element| matches!(element.value, Value::Object(_)));
        let value = match why {
            Some(why) if !has_objects => Value::Strange(why),
            _ => Value::Array(elements),
        };
        Ok(Node { range, value })
    }

    fn mapping(&mut self, style: StructureStyle, begin: Range<usize>, why: Why) -> Result<Node, SyntaxError> {
        let mut members: Vec<Member> = Vec::new();
        let mut keys = HashSet::new();
        let mut has_words = true;
        let mut end = begin.end;
        while let Some((event, range)) = self.events.next() {
            if event == Event::MappingEnd {
                end = range.end;
                break;
            }
            let is_usual = self.is_usual_key(&event, &range);
            let word = event.scalar().map(|(word, _)| word.to_owned());
            let key_range = self.node(event, range, None)?.range;
            let Some((event, range)) = self.events.next() else { break };
            let mut node = self.node(event, range, why)?;
            let Some(key) = word else {
                has_words = false;
                continue;
            };
            if key == "<<" {
                node.value = Value::Strange(MERGE);
            } else if !keys.insert(key.clone()) {
                return Err(SyntaxError::at(self.text, key_range.start, "a key stands twice"));
            } else if !is_usual && node.as_object().is_none() {
                node.value = Value::Strange(KEY);
            }
            members.push(Member { key, key_range, node });
        }
        if !has_words {
            // What such a key begins would go with its neighbour.
            for Member { node, .. } in &mut members {
                if !matches!(node.value, Value::Object(_) | Value::Array(_)) {
                    node.value = Value::Strange(KEY);
                }
            }
        }
        let range = match (style, members.as_slice()) {
            (StructureStyle::Block, [first, .., last]) => first.key_range.start..last.node.range.end,
            (StructureStyle::Block, [only]) => only.key_range.start..only.node.range.end,
            (StructureStyle::Block, []) | (StructureStyle::Flow, _) => begin.start..end,
        };
        let has_commas = style == StructureStyle::Flow;
        Ok(Node { range, value: Value::Object(Object { members, has_commas }) })
    }

    /// Whether a key stands on one line, without an anchor, a tag or a `?`.
    fn is_usual_key(&self, event: &Event<'_>, range: &Range<usize>) -> bool {
        let Event::Scalar(_, style, 0, None) = event else { return false };
        let letters = self.text.get(range.clone()).unwrap_or_default().trim_end();
        let before = self.text.get(..range.start).unwrap_or_default().trim_end();
        let is_explicit = before.strip_suffix('?').is_some_and(|before| {
            before.chars().next_back().is_none_or(|last| last.is_whitespace() || "-[{,".contains(last))
        });
        let is_flow = matches!(style, ScalarStyle::Plain | ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted);
        is_flow && !is_explicit && !letters.contains(['\n', '\r'])
    }
}

/// What a scalar without quotes means in the core schema of YAML 1.2.
fn plain(letters: &str, text: &str) -> Value {
    match text {
        _ if letters.is_empty() => Value::Other,
        "" | "~" | "null" | "Null" | "NULL" => Value::Other,
        "true" | "True" | "TRUE" => Value::Flag(true),
        "false" | "False" | "FALSE" => Value::Flag(false),
        _ if is_number(text) => Value::Other,
        _ => Value::String(text.to_owned()),
    }
}

fn is_number(text: &str) -> bool {
    let is_of =
        |digits: &str, is_digit: fn(&char) -> bool| !digits.is_empty() && digits.chars().all(|digit| is_digit(&digit));
    if let Some(digits) = text.strip_prefix("0o") {
        return is_of(digits, |digit| ('0'..='7').contains(digit));
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return is_of(digits, char::is_ascii_hexdigit);
    }
    if matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return true;
    }
    // What Rust reads as a number and YAML does not begins with a letter: `inf`, `nan`.
    unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.') && unsigned.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        let root = read(&format!("a: {text}\n")).unwrap();
        root.as_object().unwrap().get("a").unwrap().node.value.clone()
    }

    #[test]
    fn a_word_without_quotes_is_text_unless_it_is_a_number_a_flag_or_nothing() {
        for text in
            ["npx", "-y", "-", "--", "1.2.3", "0x", "inf", "nan", "1_000", "yes", "C:\\x", "@a/b", "8080:80", "1:30"]
        {
            let text = if text.starts_with('@') { format!("'{text}'") } else { text.to_owned() };
            if text != "-" {
                assert!(matches!(value(&text), Value::String(_)), "{text}");
            }
        }
        for text in ["8080", "-1", "+1", "1.5", ".5", "1e3", "0x1F", "0o17", ".inf", "-.INF", ".nan", "~", "null", ""] {
            assert_eq!(value(text), Value::Other, "{text}");
        }
        assert_eq!((value("true"), value("FALSE")), (Value::Flag(true), Value::Flag(false)));
    }

    #[test]
    fn what_is_written_is_read_back() {
        for text in ["", "a b", "\u{7f}\u{85}\u{2028}\u{feff}", "\"\\\n\t", "größe 日本 🦀", "# a: b"] {
            let quoted = escaped(&serde_json::Value::from(text).to_string());
            assert_eq!(value(&quoted), Value::String(text.to_owned()), "{quoted}");
        }
        assert!(is_plain_key("args") && !is_plain_key("no") && !is_plain_key("1") && !is_plain_key("a b"));
    }

    #[test]
    fn ranges_are_the_letters() {
        let text = "é: {x: 'ä', \"y\": [ü, \"日\"]}\n日本: # ß\n- a b # c\n- |\n  x\n  é\n\n- last\nend: z\n";
        let root = read(text).unwrap();
        let letters = |node: &Node| text[node.range.clone()].to_owned();
        let members = &root.as_object().unwrap().members;
        let inner = members[0].node.as_object().unwrap();
        assert_eq!(letters(&members[0].node), "{x: 'ä', \"y\": [ü, \"日\"]}");
        assert_eq!(
            (letters(&inner.members[0].node), letters(&inner.members[1].node)),
            ("'ä'".into(), "[ü, \"日\"]".into())
        );
        let list: Vec<String> = members[1].node.as_array().unwrap().iter().map(letters).collect();
        assert_eq!(list, ["a b", "|\n  x\n  é", "last"]);
        assert_eq!(letters(&members[2].node), "z");
    }
}
