//! Arguments of tools that are repeated in headers (2026-07-28).
//!
//! A server annotates them in the schema of a tool. What an annotation may be is in the revision, and a tool with
//! another is taken out of the list: such a tool could not be called rightly.

use std::collections::{BTreeMap, VecDeque};

use http::HeaderName;
use rescind_proto::{frame, json};

/// The member of a schema that names a header.
const ANNOTATION: &str = "x-mcp-header";

/// How deep a schema with an annotation may be nested.
const MAX_DEPTH: usize = 64;

/// Members of a schema whose members are schemas by name.
const SCHEMAS_BY_NAME: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// Members of a schema that hold values and no schemas.
const VALUES: [&str; 4] = ["default", "const", "enum", "examples"];

/// The most bytes that the names of a tool and of its arguments may have; one with longer names is not remembered.
const MAX_NAMES: usize = 4096;

/// More than a tool takes that wants arguments in headers.
pub(crate) const TOOL: usize = 4 * MAX_NAMES;

/// The tools that want arguments in headers, the last to be listed last.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Tools {
    known: BTreeMap<Box<str>, Box<[Param]>>,
    /// Their names in the order in which they became known.
    order: VecDeque<Box<str>>,
    most: usize,
}

/// An argument that is repeated in a header.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Param {
    /// Its place in the arguments.
    path: Box<[Box<str>]>,
    pub(crate) header: HeaderName,
}

/// A tool that cannot be called rightly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RejectedTool {
    pub(crate) name: Box<str>,
    pub(crate) why: &'static str,
}

impl Tools {
    /// Remembers at most so many tools.
    pub(crate) const fn new(most: usize) -> Self {
        Self { known: BTreeMap::new(), order: VecDeque::new(), most }
    }

    /// How many are remembered.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// The arguments that this tool wants in headers.
    pub(crate) fn params(&self, tool: &str) -> &[Param] {
        self.known.get(tool).map_or(&[], |params| params)
    }

    /// Learns from the answer to `tools/list`, whose result is `result`. Tools that cannot be called rightly are returned,
    /// and with them the answer without them, if there are any.
    pub(crate) fn learn(&mut self, answer: &[u8], result: &[u8]) -> (Vec<RejectedTool>, Option<Vec<u8>>) {
        let Some(list) = json::member(result, "tools") else { return (Vec::new(), None) };
        let Some(tools) = json::elements(list) else { return (Vec::new(), None) };
        let (mut rejected, mut kept) = (Vec::new(), Vec::new());
        for tool in tools.map_while(Result::ok) {
            match self.learn_tool(tool) {
                Ok(()) => kept.push(tool),
                Err(why) => rejected.push(RejectedTool { name: name(tool).unwrap_or_default(), why }),
            }
        }
        let span = frame::span_of(answer, list).filter(|_| !rejected.is_empty());
        let without = span.map(|span| {
            let mut without = answer[..span.start].to_vec();
            without.push(b'[');
            without.extend_from_slice(&kept.join(&b','));
            without.push(b']');
            without.extend_from_slice(&answer[span.end..]);
            without
        });
        (rejected, without)
    }

    fn learn_tool(&mut self, tool: &[u8]) -> Result<(), &'static str> {
        let Some(name) = name(tool) else { return Ok(()) };
        if self.known.remove(&name).is_some() {
            self.order.retain(|known| *known != name);
        }
        let Some(schema) = json::member(tool, "inputSchema").filter(|schema| may_annotate(schema)) else {
            return Ok(());
        };
        let params = read_schema(schema)?;
        let names = name.len() + params.iter().map(Param::names).sum::<usize>();
        if params.is_empty() || self.most == 0 || names > MAX_NAMES {
            return Ok(());
        }
        while self.known.len() >= self.most {
            self.order.pop_front().and_then(|oldest| self.known.remove(&oldest));
        }
        self.order.push_back(name.clone());
        self.known.insert(name, params.into());
        Ok(())
    }
}

impl Param {
    /// Bytes of its names.
    fn names(&self) -> usize {
        let path = self.path.iter().map(|name| size_of_val(name) + name.len()).sum::<usize>();
        path + self.header.as_str().len()
    }

    /// Whether such an argument is missing.
    pub(crate) fn is_absent(&self, arguments: &[u8]) -> bool {
        self.raw(arguments).is_none_or(|raw| raw == b"null")
    }

    fn raw<'a>(&self, arguments: &'a [u8]) -> Option<&'a [u8]> {
        self.path.iter().try_fold(arguments, |object, name| json::member(object, name))
    }

    /// The value of the argument as text; `None` if there is none that a header could hold.
    pub(crate) fn value(&self, arguments: &[u8]) -> Option<String> {
        match self.raw(arguments)? {
            b"true" => Some("true".to_owned()),
            b"false" => Some("false".to_owned()),
            raw @ [b'"', ..] => json::text(raw).map(|text| text.into_owned()),
            // 42.0 is an integer of JSON Schema, too.
            raw => {
                let text = core::str::from_utf8(raw).ok()?;
                let digits = text
                    .split_once('.')
                    .map_or(text, |(digits, zeros)| if zeros.bytes().all(|byte| byte == b'0') { digits } else { text });
                json::is_integer(digits.as_bytes()).then(|| digits.to_owned())
            }
        }
    }
}

fn name(tool: &[u8]) -> Option<Box<str>> {
    Some(json::text(json::member(tool, "name")?)?.into())
}

/// Whether the text of a schema can hold an annotation, however that is written.
fn may_annotate(schema: &[u8]) -> bool {
    let finder = |text: &str| memchr::memmem::find(schema, text.as_bytes()).is_some();
    finder(ANNOTATION) || finder("\\u")
}

fn read_schema(schema: &[u8]) -> Result<Vec<Param>, &'static str> {
    let mut found = Vec::new();
    walk(schema, &Place { path: Some(Vec::new()), depth: 0 }, &mut found)?;
    let mut names: Vec<&str> = found.iter().map(|param| param.header.as_str()).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    if names.len() < count {
        return Err("two of its arguments want the same header (x-mcp-header)");
    }
    Ok(found)
}

/// Where in a schema a walk is.
struct Place {
    /// The names of the properties on the way here; `None` if it leads through anything else.
    path: Option<Vec<Box<str>>>,
    depth: usize,
}

impl Place {
    /// A schema inside this one: that of a property, or any other.
    fn inside(&self, property: Option<&[u8]>) -> Self {
        let path = self.path.as_ref().zip(property).map(|(path, name)| {
            let name = json::text(name).unwrap_or_default().into();
            path.iter().cloned().chain([name]).collect()
        });
        Self { path, depth: self.depth + 1 }
    }
}

fn walk(schema: &[u8], place: &Place, found: &mut Vec<Param>) -> Result<(), &'static str> {
    if place.depth > MAX_DEPTH {
        return Err("its schema is nested too deeply to look for x-mcp-header");
    }
    // A schema that is not an object is a truth, or an array of schemas.
    for element in json::elements(schema).into_iter().flatten().map_while(Result::ok) {
        walk(element, &place.inside(None), found)?;
    }
    for member in json::members(schema).into_iter().flatten().map_while(Result::ok) {
        if member.key_is(ANNOTATION) {
            found.push(read_annotation(schema, member.value, place)?);
        } else if SCHEMAS_BY_NAME.iter().any(|name| member.key_is(name)) {
            let are_arguments = member.key_is("properties");
            for property in json::members(member.value).into_iter().flatten().map_while(Result::ok) {
                walk(property.value, &place.inside(are_arguments.then_some(property.key)), found)?;
            }
        } else if !VALUES.iter().any(|name| member.key_is(name)) && may_annotate(member.value) {
            walk(member.value, &place.inside(None), found)?;
        }
    }
    Ok(())
}

fn read_annotation(schema: &[u8], value: &[u8], place: &Place) -> Result<Param, &'static str> {
    let Some(path) = place.path.as_deref().filter(|path| !path.is_empty()) else {
        return Err(
            "x-mcp-header stands where no argument is, or one that cannot be found without evaluating the schema",
        );
    };
    let kind = json::member(schema, "type").and_then(json::text);
    if !matches!(kind.as_deref(), Some("string" | "integer" | "boolean")) {
        return Err("x-mcp-header stands at an argument that is no string, integer or boolean");
    }
    let name = json::text(value).ok_or("x-mcp-header is no string")?;
    let header = HeaderName::from_bytes(format!("mcp-param-{name}").as_bytes()).ok().filter(|_| !name.is_empty());
    let header = header.ok_or("x-mcp-header is not the name of a header")?;
    Ok(Param { path: path.into(), header })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learn(tools: &mut Tools, schemas: &[&str]) -> (Vec<RejectedTool>, Option<String>) {
        let list: Vec<String> = schemas
            .iter()
            .enumerate()
            .map(|(at, schema)| format!(r#"{{"name":"t{at}","inputSchema":{schema}}}"#))
            .collect();
        let answer = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{}],"x":1}}}}"#, list.join(","));
        let result = json::member(answer.as_bytes(), "result").unwrap();
        let (rejected, without) = tools.learn(answer.as_bytes(), result);
        (rejected, without.map(|without| String::from_utf8(without).unwrap()))
    }

    fn is_rejected(schema: &str) -> bool {
        let (rejected, without) = learn(&mut Tools::new(9), &[schema]);
        assert_eq!(rejected.is_empty(), without.is_none());
        !rejected.is_empty()
    }

    fn values(schema: &str, arguments: &str) -> Vec<(String, Option<String>)> {
        let mut tools = Tools::new(9);
        assert_eq!(learn(&mut tools, &[schema]), (Vec::new(), None));
        let params = tools.params("t0").iter();
        params.map(|param| (param.header.to_string(), param.value(arguments.as_bytes()))).collect()
    }

    #[test]
    fn annotated_arguments_are_found_at_their_place() {
        let schema = r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},
            "deep":{"type":"object","properties":{"n":{"x-mcp-header":"N","type":"integer"}}},
            "flag":{"type":"boolean","x-mcp-header":"Flag"}}}"#;
        let found = values(schema, r#"{"region":"us \u00e9","deep":{"n":-7},"flag":true,"other":1}"#);
        let found: Vec<(&str, Option<&str>)> =
            found.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
        assert_eq!(
            found,
            [("mcp-param-region", Some("us é")), ("mcp-param-n", Some("-7")), ("mcp-param-flag", Some("true"))]
        );
    }

    #[test]
    fn an_argument_without_a_value_has_no_header() {
        let schema = r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}"#;
        for arguments in ["{}", r#"{"a":null}"#, r#"{"a":{"b":1}}"#, r#"{"a":[1]}"#, r#"{"a":1.5}"#, "null", ""] {
            assert_eq!(values(schema, arguments), [("mcp-param-a".to_owned(), None)], "{arguments}");
        }
        assert_eq!(values(schema, r#"{"a":42.0}"#)[0].1.as_deref(), Some("42"));
        assert_eq!(values(schema, r#"{"a":""}"#)[0].1.as_deref(), Some(""));
    }

    #[test]
    fn annotations_that_the_revision_forbids_reject_their_tool() {
        for schema in [
            r#"{"properties":{"a":{"type":"string","x-mcp-header":""}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"A B"}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"A\r\nB"}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"é"}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":7}}}"#,
            r#"{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}"#,
            r#"{"properties":{"a":{"type":"object","x-mcp-header":"A"}}}"#,
            r#"{"properties":{"a":{"x-mcp-header":"A"}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}"#,
            r#"{"type":"string","x-mcp-header":"A"}"#,
            r#"{"properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}}"#,
            r#"{"oneOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}"#,
            r#"{"properties":{"a":{"anyOf":[{"type":"string","x-mcp-header":"A"}]}}}"#,
            r##"{"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"string","x-mcp-header":"A"}}}"##,
            r#"{"if":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}"#,
            r#"{"patternProperties":{"a":{"type":"string","x-mcp-header":"A"}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp\u002dheader":""}}}"#,
        ] {
            assert!(is_rejected(schema), "{schema}");
        }
    }

    #[test]
    fn what_only_looks_like_an_annotation_rejects_nothing() {
        for schema in [
            r#"{"properties":{"x-mcp-header":{"type":"number"}}}"#,
            r#"{"properties":{"a":{"type":"string","description":"see x-mcp-header"}}}"#,
            r#"{"properties":{"a":{"type":"object","default":{"x-mcp-header":""}}}}"#,
            r#"{"properties":{"a":{"enum":[{"x-mcp-header":""}]}}}"#,
            r#"{"type":"object"}"#,
            "true",
            "null",
        ] {
            assert!(!is_rejected(schema), "{schema}");
        }
    }

    #[test]
    fn a_rejected_tool_is_left_out_and_the_others_stay_as_they_are() {
        let good = r#"{ "type" : "object" }"#;
        let bad = r#"{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}"#;
        let (rejected, without) = learn(&mut Tools::new(9), &[good, bad, good, bad]);
        assert_eq!(rejected.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["t1", "t3"]);
        let expected = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t0","inputSchema":{ "type" : "object" }},{"name":"t2","inputSchema":{ "type" : "object" }}],"x":1}}"#;
        assert_eq!(without.as_deref(), Some(expected));
        let (rejected, without) = learn(&mut Tools::new(9), &[bad]);
        assert_eq!((rejected.len(), without.unwrap().contains(r#""tools":[]"#)), (1, true));
    }

    #[test]
    fn a_schema_of_any_depth_is_read_without_overflow() {
        let deep = format!(r#"{}{{"x-mcp-header":"A"}}{}"#, r#"{"not":"#.repeat(5_000), "}".repeat(5_000));
        assert!(is_rejected(&deep));
    }

    #[test]
    fn a_tool_with_names_that_are_too_long_is_not_remembered() {
        let mut tools = Tools::new(9);
        let schema = |name: &str| format!(r#"{{"properties":{{"{name}":{{"type":"string","x-mcp-header":"A"}}}}}}"#);
        learn(&mut tools, &[&schema("a"), &schema(&"a".repeat(MAX_NAMES))]);
        assert_eq!((tools.params("t0").len(), tools.params("t1").len()), (1, 0));
    }

    #[test]
    fn the_newest_tools_are_remembered() {
        let schema = r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}"#;
        let mut tools = Tools::new(2);
        learn(&mut tools, &[schema, schema, schema]);
        assert_eq!(tools.len(), 2);
        assert_eq!((tools.params("t0").len(), tools.params("t2").len()), (0, 1));
        learn(&mut tools, &["{}", "{}", "{}"]);
        assert_eq!(tools.len(), 0);
    }
}
