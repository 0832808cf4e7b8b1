//! Reads JSON with comments.

use jsonc_parser::{CollectOptions, ParseOptions, ast, common::Ranged, parse_to_ast};

use super::SyntaxError;
use crate::{
    oddity::{Form, Oddity},
    tree::{Member, Node, Object, Value},
};

/// What clients read. What no client reads is an error here, too: it would be kept from nobody by a change of ours.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

pub(super) fn read(text: &str) -> Result<Node, SyntaxError> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &OPTIONS);
    let parsed = parsed.map_err(|error| SyntaxError::at(text, error.range().start, error.kind().to_string()))?;
    let empty = || Node { range: 0..0, value: Value::Object(Object::default()) };
    Ok(parsed.value.map_or_else(empty, node))
}

/// What the text has and strict JSON has not: the first of each kind.
pub(super) fn oddities(text: &str) -> Vec<Oddity> {
    let first = |form, options| {
        let refused = parse_to_ast(text, &CollectOptions::default(), &options).err()?;
        Some(Oddity { form, line: SyntaxError::at(text, refused.range().start, "").line })
    };
    let empty = text.trim().is_empty().then_some(Oddity { form: Form::Empty, line: 1 });
    let comment = first(Form::Comment, ParseOptions { allow_comments: false, ..OPTIONS });
    let comma = first(Form::TrailingComma, ParseOptions { allow_trailing_commas: false, ..OPTIONS });
    [empty, comment, comma].into_iter().flatten().collect()
}

fn node(value: ast::Value<'_>) -> Node {
    let range = value.start()..value.end();
    let value = match value {
        ast::Value::StringLit(string) => Value::String(string.value.into_owned()),
        ast::Value::Array(array) => Value::Array(array.elements.into_iter().map(node).collect()),
        ast::Value::Object(object) => {
            Value::Object(Object { members: object.properties.into_iter().map(member).collect(), has_commas: true })
        }
        ast::Value::BooleanLit(flag) => Value::Flag(flag.value),
        ast::Value::NumberLit(_) | ast::Value::NullKeyword(_) => Value::Other,
    };
    Node { range, value }
}

fn member(property: ast::ObjectProp<'_>) -> Member {
    let key_range = property.name.start()..property.name.end();
    Member { key: property.name.into_string(), key_range, node: node(property.value) }
}
