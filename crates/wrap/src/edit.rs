//! Changes of a text that leave everything else of it as it is.

use std::ops::Range;

use crate::{
    entry::{Command, Form},
    syntax::Syntax,
    tree::{Member, Node, Object, Value},
};

/// One change: what stands in a range is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) range: Range<usize>,
    pub(crate) text: String,
}

/// A text with all edits made. They do not overlap.
pub(crate) fn apply(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
    let mut done = String::with_capacity(text.len() + edits.iter().map(|edit| edit.text.len()).sum::<usize>());
    let mut copied = 0;
    for Edit { range, text: new } in edits {
        done.push_str(&text[copied..range.start]);
        done.push_str(&new);
        copied = range.end;
    }
    done.push_str(&text[copied..]);
    done
}

/// Why this command cannot be changed in the way in which its words are written, if it cannot.
pub(crate) fn unusual(text: &str, command: &Command) -> Option<&'static str> {
    let list = match &command.form {
        Form::Array(list) => Some(list),
        Form::Members { arguments, .. } => arguments.as_ref(),
    };
    let is_usual = |list: &Node| {
        let mut elements = list.as_array().unwrap_or_default().iter();
        !is_block(text, list) || elements.all(|element| dash(text, element).is_some())
    };
    let why = "its list does not have each `-` at the start of a line; put the shim before it by hand";
    list.is_some_and(|list| !is_usual(list)).then_some(why)
}

/// Why the letters of this program cannot become an argument as they are, if they cannot. YAML only.
pub(crate) fn immovable(text: &str, command: &Command) -> Option<&'static str> {
    let Form::Members { program, arguments, has_commas, .. } = &command.form else { return None };
    let letters = &text[program.clone()];
    if letters.contains(['\n', '\r']) {
        return Some("its command is written over several lines; write it on one, or put the shim before it by hand");
    }
    let is_bare = !letters.starts_with(['"', '\'']);
    let to_brackets = !has_commas && arguments.as_ref().is_none_or(|list| !is_block(text, list));
    let needs_quotes = letters.contains([',', '[', ']', '{', '}']) || letters.starts_with([':', '?']);
    (is_bare && to_brackets && needs_quotes)
        .then_some("its command has a character that means something in a list in brackets; put it in quotes")
}

/// Puts words before a command: the first of them becomes the program, and the program that was there an argument, in
/// the very letters in which it was written.
pub(crate) fn prepend(text: &str, syntax: Syntax, command: &Command, words: &[String]) -> Vec<Edit> {
    let quoted = words.iter().map(|word| syntax.quoted(word));
    match &command.form {
        Form::Array(array) => vec![insert_first(text, array, &quoted.collect::<Vec<_>>())],
        Form::Members { key, program, arguments, has_commas } => {
            let mut quoted = quoted;
            let Some(first) = quoted.next() else { return Vec::new() };
            let mut rest: Vec<String> = quoted.collect();
            rest.push(text[program.clone()].to_owned());
            let replaced = Edit { range: program.clone(), text: first };
            let inserted = match arguments {
                Some(array) => insert_first(text, array, &rest),
                None => insert_member(text, syntax, key, program, *has_commas, &rest),
            };
            vec![replaced, inserted]
        }
    }
}

/// Puts another program before the arguments of a command. `None` if the command has no word.
pub(crate) fn replace_program(syntax: Syntax, command: &Command, word: &str) -> Option<Edit> {
    let range = match &command.form {
        Form::Array(array) => array.as_array()?.first()?.range.clone(),
        Form::Members { program, .. } => program.clone(),
    };
    Some(Edit { range, text: syntax.quoted(word) })
}

/// Takes the first words off a command of this entry, so many that its own program comes first again. Arguments that were
/// `added` with them are taken out as a whole, where nothing else is in them.
pub(crate) fn take_off(text: &str, entry: &Object, command: &Command, words: usize, added: Option<&str>) -> Vec<Edit> {
    match &command.form {
        Form::Array(array) => remove_first(text, entry, array, words),
        Form::Members { program, arguments: Some(array), .. } => {
            let Value::Array(elements) = &array.value else { return Vec::new() };
            // The words of ours are the program and those before the program that is to come back.
            let Some(own) = words.checked_sub(1).and_then(|place| elements.get(place)) else { return Vec::new() };
            let back = Edit { range: program.clone(), text: text[own.range.clone()].to_owned() };
            let rest = added
                .filter(|_| words == elements.len())
                .and_then(|added| {
                    // Its flags may have been changed since, so what leads to the list is enough.
                    let gap = text.get(program.end..array.range.start);
                    let leads = gap.and_then(|gap| added.strip_prefix(gap)).is_some_and(|list| list.starts_with('['));
                    let end = if text[program.end..].starts_with(added) {
                        Some(program.end + added.len())
                    } else {
                        leads.then_some(array.range.end)
                    };
                    let whole = end.map(|end| Edit { range: program.end..end, text: String::new() });
                    whole.or_else(|| remove_array(text, entry, array)).map(|edit| vec![edit])
                })
                .unwrap_or_else(|| remove_first(text, entry, array, words));
            [vec![back], rest].concat()
        }
        Form::Members { arguments: None, .. } => Vec::new(),
    }
}

/// Replaces words between the program and the last word of a command, in the manner of those around them. `None` if a
/// comment would go with them.
pub(crate) fn replace_words(
    text: &str,
    syntax: Syntax,
    command: &Command,
    places: &Range<usize>,
    words: &[String],
) -> Option<Edit> {
    let (elements, before) = match &command.form {
        Form::Array(array) => (array.as_array()?, 0),
        Form::Members { arguments, .. } => (arguments.as_ref()?.as_array()?, 1),
    };
    let (first, end) = (places.start.checked_sub(before)?, places.end.checked_sub(before)?);
    let (previous, next) = (elements.get(first.checked_sub(1)?)?, elements.get(end)?);
    let start = elements.get(first)?.range.start;
    // In YAML a dash may stand before each.
    let is_plain = |gap: &str| {
        gap.chars().all(|found| found == ',' || found.is_whitespace())
            || (syntax == Syntax::Yaml && gap.starts_with(['\n', '\r']) && gap.trim() == "-")
    };
    let gaps = elements.get(first..=end)?.windows(2);
    if !gaps.map(|pair| &text[pair[0].range.end..pair[1].range.start]).all(is_plain) {
        return None;
    }
    let gap = &text[previous.range.end..start];
    let separator = if is_plain(gap) { gap } else { ", " };
    let new = words.iter().map(|word| format!("{}{separator}", syntax.quoted(word)));
    Some(Edit { range: start..next.range.start, text: new.collect() })
}

/// The member whose value is this array, and the object that has it, which is this one or one level below.
fn member_of<'a>(entry: &'a Object, array: &Node) -> Option<(&'a Object, &'a Member)> {
    let inner = entry.members.iter().filter_map(|member| member.node.as_object());
    let mut objects = std::iter::once(entry).chain(inner);
    objects.find_map(|object| Some((object, object.members.iter().find(|member| member.node.range == array.range)?)))
}

/// Removes the member whose value is this array from the object that has it. `None` if a comment would go with it.
fn remove_array(text: &str, entry: &Object, array: &Node) -> Option<Edit> {
    let (object, member) = member_of(entry, array)?;
    let edit = remove_member(text, object, &member.key)?;
    // On a line of its own, only what leads to its key stands before it.
    let before = if object.has_commas { &text[edit.range.start..member.key_range.start] } else { "" };
    let around = [before, &text[array.range.end..edit.range.end]];
    around.concat().chars().all(|found| found == ',' || found.is_whitespace()).then_some(edit)
}

/// Inserts elements before the first of an array, each on its own line if the first one is.
fn insert_first(text: &str, array: &Node, elements: &[String]) -> Edit {
    let inside = array.range.start + 1;
    let first = array.as_array().and_then(<[Node]>::first);
    if let Some((first, at)) =
        first.filter(|_| is_block(text, array)).and_then(|first| Some((first, dash(text, first)?)))
    {
        let line = line_start(text, at);
        let (indentation, gap) = (&text[line..at], &text[at + 1..first.range.start]);
        let end = newline(text, line);
        let new = elements.iter().map(|element| format!("-{gap}{element}{end}{indentation}"));
        return Edit { range: at..at, text: new.collect() };
    }
    let Some(first) = first else { return Edit { range: inside..inside, text: elements.join(", ") } };
    let gap = &text[inside..first.range.start];
    let is_plain = gap.contains('\n') && gap.chars().all(char::is_whitespace);
    let separator = format!(",{}", if is_plain { gap } else { " " });
    let mut new = elements.join(&separator);
    new.push_str(&separator);
    Edit { range: first.range.start..first.range.start, text: new }
}

/// Removes the first elements of an array, which may be all of them; it stays, empty.
fn remove_first(text: &str, entry: &Object, array: &Node, count: usize) -> Vec<Edit> {
    if is_block(text, array) {
        return remove_lines(text, entry, array, count).unwrap_or_default();
    }
    vec![remove_between(text, array, count)]
}

/// Removes the first elements of an array that has each on a line of its own, after a `-`.
fn remove_lines(text: &str, entry: &Object, array: &Node, count: usize) -> Option<Vec<Edit>> {
    let elements = array.as_array()?;
    let dashes = elements.iter().map(|element| dash(text, element)).collect::<Option<Vec<_>>>()?;
    let (first, last) = (*dashes.first()?, elements.last()?);
    if count >= elements.len() {
        // Without an element left there would be nothing in the place of the list.
        let key = member_of(entry, array)?.1.key_range.end;
        let is_next = text[key..first].trim() == ":";
        let colon = key + text[key..first].find(':')? + 1;
        let (start, new) = if is_next { (colon, " []") } else { (first, "  []") };
        return Some(vec![Edit { range: start..last.range.end, text: new.to_owned() }]);
    }
    let edits = elements.iter().zip(dashes.windows(2)).take(count).map(|(element, dashes)| {
        let is_all = text[element.range.end..dashes[1]].trim().is_empty();
        Edit { range: dashes[0]..if is_all { dashes[1] } else { element.range.end }, text: String::new() }
    });
    Some(edits.collect())
}

/// Whether an array has no brackets: each element is on a line of its own, after a `-`. YAML only.
fn is_block(text: &str, array: &Node) -> bool {
    !text[array.range.start..].starts_with('[')
}

/// Where the `-` of an element of such an array stands, if it is the first of its line.
fn dash(text: &str, element: &Node) -> Option<usize> {
    let before = &text[..element.range.start];
    let at = before.trim_end_matches([' ', '\t']).strip_suffix('-')?.len();
    let is_first = text[line_start(text, at)..at].chars().all(|found| found == ' ');
    (is_first && at + 1 < element.range.start).then_some(at)
}

/// Removes the first elements of an array in brackets.
fn remove_between(text: &str, array: &Node, count: usize) -> Edit {
    let elements = array.as_array().unwrap_or_default();
    let (Some(first), Some(last)) = (elements.first(), count.checked_sub(1).and_then(|last| elements.get(last))) else {
        return Edit { range: array.range.start..array.range.start, text: String::new() };
    };
    let end = elements.get(count).map_or_else(
        || {
            // A comma at the end must not be left alone.
            let rest = &text[last.range.end..array.range.end];
            let comma = rest.find(|found: char| !found.is_whitespace()).filter(|at| rest[*at..].starts_with(','));
            last.range.end + comma.map_or(0, |at| at + 1)
        },
        |next| next.range.start,
    );
    Edit { range: first.range.start..end, text: String::new() }
}

/// Inserts `args` after the program, in the manner of the member that holds that.
fn insert_member(
    text: &str,
    syntax: Syntax,
    key: &Range<usize>,
    program: &Range<usize>,
    has_commas: bool,
    elements: &[String],
) -> Edit {
    let equals = equals(text, syntax, key, program);
    let member = format!("{}{equals}[{}]", syntax.key("args"), elements.join(", "));
    let joiner = if syntax == Syntax::Yaml && !has_commas {
        // A first member may stand behind a `-`, whose column counts.
        let line = line_start(text, key.start);
        format!("{}{}", newline(text, line), " ".repeat(text[line..key.start].chars().count()))
    } else {
        joiner(text, key.start, has_commas)
    };
    let new = format!("{joiner}{member}");
    Edit { range: program.end..program.end, text: new }
}

/// What stands between a key and its value, as it does here.
pub(crate) fn equals<'a>(text: &'a str, syntax: Syntax, key: &Range<usize>, value: &Range<usize>) -> &'a str {
    let between = &text[key.end..value.start];
    let is_plain = between.chars().all(|found| matches!(found, ' ' | '\t' | ':' | '='));
    match (is_plain, syntax) {
        (true, Syntax::Yaml) if !between.ends_with(' ') => ": ",
        (true, _) => between,
        (false, Syntax::Json | Syntax::Yaml) => ": ",
        (false, Syntax::Toml) => " = ",
    }
}

/// What stands between the member whose key begins here and a new one after it.
pub(crate) fn joiner(text: &str, key: usize, has_commas: bool) -> String {
    let line = line_start(text, key);
    let before = &text[line..key];
    let is_own_line = before.chars().all(char::is_whitespace);
    match (has_commas, is_own_line) {
        (true, true) => format!(",{}{before}", newline(text, line)),
        (true, false) => ", ".to_owned(),
        // With the rest of a dotted key, if it is one.
        (false, _) => format!("{}{before}", newline(text, line)),
    }
}

/// Removes a member with what separates it from its neighbour.
pub(crate) fn remove_member(text: &str, object: &Object, key: &str) -> Option<Edit> {
    let place = object.members.iter().position(|member| member.key == key)?;
    let member = &object.members[place];
    let start = line_start(text, member.key_range.start);
    let range = if !object.has_commas && text[start..member.key_range.start].trim_end().ends_with('-') {
        // The `-` is that of the whole object.
        member.key_range.start..object.members.get(place + 1)?.key_range.start
    } else if !object.has_commas {
        let end = text[member.node.range.end..].find('\n').map_or(text.len(), |at| member.node.range.end + at + 1);
        start..end
    } else if let Some(previous) = place.checked_sub(1) {
        object.members[previous].node.range.end..member.node.range.end
    } else {
        member.key_range.start..object.members.get(1)?.key_range.start
    };
    Some(Edit { range, text: String::new() })
}

/// Where the line begins that this place is on.
fn line_start(text: &str, place: usize) -> usize {
    text[..place].rfind('\n').map_or(0, |at| at + 1)
}

/// How lines end here.
fn newline(text: &str, line: usize) -> &'static str {
    let end = if line > 0 { line } else { text.find('\n').map_or(0, |at| at + 1) };
    if text[..end].ends_with("\r\n") { "\r\n" } else { "\n" }
}
