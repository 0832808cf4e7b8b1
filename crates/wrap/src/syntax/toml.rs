//! Reads TOML.

use toml_edit::{Document, InlineTable, Item, Key, Table};

use super::SyntaxError;
use crate::tree::{Member, Node, Object, Value};

pub(super) fn read(text: &str) -> Result<Node, SyntaxError> {
    let document = Document::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        SyntaxError::at(text, offset, error.message())
    })?;
    let root = table(document.as_table());
    Ok(Node { range: 0..text.len(), value: Value::Object(root) })
}

fn table(table: &Table) -> Object {
    let members = table.iter().filter_map(|(key, _)| {
        let (key, item) = table.get_key_value(key)?;
        Some(member(key, node_of_item(item)))
    });
    Object { members: members.collect(), has_commas: false }
}

fn inline(table: &InlineTable) -> Object {
    let members = table.iter().filter_map(|(key, _)| {
        let (key, item) = table.get_key_value(key)?;
        Some(member(key, node_of_item(item)))
    });
    Object { members: members.collect(), has_commas: true }
}

fn member(key: &Key, node: Node) -> Member {
    Member { key: key.get().to_owned(), key_range: key.span().unwrap_or_default(), node }
}

fn node_of_item(item: &Item) -> Node {
    let range = item.span().unwrap_or_default();
    let value = match item {
        Item::Table(found) => Value::Object(table(found)),
        Item::Value(value) => return node_of_value(value),
        Item::None | Item::ArrayOfTables(_) => Value::Other,
    };
    Node { range, value }
}

fn node_of_value(value: &toml_edit::Value) -> Node {
    let range = value.span().unwrap_or_default();
    let value = match value {
        toml_edit::Value::String(string) => Value::String(string.value().clone()),
        toml_edit::Value::Array(array) => Value::Array(array.iter().map(node_of_value).collect()),
        toml_edit::Value::InlineTable(table) => Value::Object(inline(table)),
        toml_edit::Value::Boolean(flag) => Value::Flag(*flag.value()),
        toml_edit::Value::Integer(_) | toml_edit::Value::Float(_) | toml_edit::Value::Datetime(_) => Value::Other,
    };
    Node { range, value }
}
