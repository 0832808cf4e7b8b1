//! The schema of a type, in words that every validator knows.

use schemars::{
    JsonSchema, Schema,
    transform::{RecursiveTransform, Transform as _},
};
use serde_json::Value;

/// The formats of JSON Schema. Strict validators refuse a schema with any other, such as `uint64`.
const FORMATS: [&str; 19] = [
    "date-time",
    "date",
    "time",
    "duration",
    "email",
    "idn-email",
    "hostname",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "iri",
    "iri-reference",
    "uuid",
    "uri-template",
    "json-pointer",
    "relative-json-pointer",
    "regex",
];

/// The schema of `T`. The bounds of numbers stay, and formats such as `uint64`, which name them again, are left out.
pub(super) fn of<T: JsonSchema>() -> Value {
    let mut schema = schemars::schema_for!(T);
    let standard = |schema: &mut Schema| {
        let format = schema.get("format").and_then(Value::as_str);
        if format.is_some_and(|format| !FORMATS.contains(&format)) {
            schema.remove("format");
        }
    };
    RecursiveTransform(standard).transform(&mut schema);
    schema.to_value()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::SystemTime};

    use super::*;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is of interest")]
    struct All {
        count: u64,
        within: Option<f64>,
        small: Vec<u8>,
        by_name: BTreeMap<String, i32>,
        /// A member of that name, which is no keyword.
        format: u16,
        inner: Inner,
        #[schemars(extend("format" = "date-time"))]
        at: String,
        then: SystemTime,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is of interest")]
    enum Inner {
        Some { usize: usize },
        None,
    }

    fn formats(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("format").and_then(Value::as_str).map(str::to_owned));
                members.values().for_each(|value| formats(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| formats(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn only_formats_of_the_standard_are_left_and_bounds_stay() {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        formats(&schemars::schema_for!(All).to_value(), &mut before);
        let schema = of::<All>();
        formats(&schema, &mut after);
        assert!(before.len() > 6 && before.iter().any(|format| format == "uint64"), "{before:?}");
        assert_eq!(after, ["date-time"], "{schema}");
        assert_eq!(
            (&schema["properties"]["count"]["minimum"], &schema["properties"]["format"]["maximum"]),
            (&0.into(), &65535.into())
        );
    }
}
