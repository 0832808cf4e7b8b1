//! The schema of a form, from a type: the little that the protocol allows of JSON Schema.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// The formats of strings that a form may ask for.
const FORMATS: [&str; 4] = ["email", "uri", "date", "date-time"];

/// The schema of `T`, whose fields are reduced to what a form may have.
pub(super) fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    let properties = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let fields: Map<_, _> = properties.into_iter().map(|(name, property)| (name, field(property))).collect();
    let required = schema.get_mut("required").map(Value::take);
    let mut form = json!({ "type": "object", "properties": fields });
    if let Some(required) = required {
        form["required"] = required;
    }
    form
}

/// One field: an optional one has the schema of what is in it, and is absent where it is not filled in.
fn field(schema: Value) -> Value {
    let Value::Object(mut schema) = schema else { return schema };
    if let Some(inner) = unwrapped(&mut schema) {
        schema.extend(inner);
    }
    if let Some(Value::Array(types)) = schema.get("type")
        && let Some(one) = types.iter().find(|name| *name != "null").cloned()
    {
        schema.insert("type".to_owned(), one);
    }
    if let Some(Value::Array(choices)) = schema.get_mut("enum") {
        choices.retain(|choice| !choice.is_null());
    }
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    let is_known = |format: &Value| format.as_str().is_some_and(|format| FORMATS.contains(&format));
    if schema.get("format").is_some_and(|format| !is_known(format)) {
        schema.remove("format");
    }
    if let Some(variants) = schema.remove("oneOf") {
        schema.insert("type".to_owned(), "string".into());
        schema.insert("oneOf".to_owned(), titled(&variants));
    }
    if let Some(items) = schema.get_mut("items") {
        let item = field(items.take());
        // The choices of a list are called `anyOf`.
        *items = item.get("oneOf").map_or_else(|| item.clone(), |choices| json!({ "anyOf": choices }));
    }
    schema.into()
}

/// The schema in an `anyOf` of it and `null`.
fn unwrapped(schema: &mut Map<String, Value>) -> Option<Map<String, Value>> {
    let Some(Value::Array(either)) = schema.remove("anyOf") else { return None };
    let inner = either.into_iter().find(|one| one["type"] != "null")?;
    inner.as_object().cloned()
}

/// The choices of an enum with documented variants, each with its title.
fn titled(variants: &Value) -> Value {
    let mut choices = Vec::new();
    for variant in variants.as_array().into_iter().flatten() {
        let description = variant.get("description");
        let names = variant.get("enum").and_then(Value::as_array).into_iter().flatten();
        for name in names.chain(variant.get("const")) {
            choices.push(json!({ "const": name, "title": description.unwrap_or(name) }));
        }
    }
    choices.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema matters")]
    #[serde(rename_all = "lowercase")]
    enum Size {
        Small,
        Large,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema matters")]
    #[serde(rename_all = "lowercase")]
    enum Speed {
        /// Takes a day
        Slow,
        /// Takes an hour
        Fast,
        Unknown,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema matters")]
    struct Order {
        /// Who gets it
        name: String,
        count: u32,
        gift: bool,
        note: Option<String>,
        size: Size,
        fallback: Option<Size>,
        speed: Speed,
        colours: Vec<Size>,
        speeds: Vec<Speed>,
    }

    #[test]
    fn a_form_has_only_what_the_protocol_allows() {
        let speeds = json!([
            { "const": "unknown", "title": "unknown" },
            { "const": "slow", "title": "Takes a day" },
            { "const": "fast", "title": "Takes an hour" },
        ]);
        let schema = schema::<Order>();
        let properties = &schema["properties"];
        assert_eq!(schema["type"], "object");
        assert_eq!(schema["required"], json!(["name", "count", "gift", "size", "speed", "colours", "speeds"]));
        assert_eq!(properties["name"], json!({ "type": "string", "description": "Who gets it" }));
        assert_eq!(properties["count"], json!({ "type": "integer", "minimum": 0 }));
        assert_eq!(properties["gift"], json!({ "type": "boolean" }));
        assert_eq!(properties["note"], json!({ "type": "string" }));
        assert_eq!(properties["size"], json!({ "type": "string", "enum": ["small", "large"] }));
        assert_eq!(properties["fallback"], json!({ "type": "string", "enum": ["small", "large"] }));
        assert_eq!(properties["speed"], json!({ "type": "string", "oneOf": speeds }));
        let sizes = json!({ "type": "string", "enum": ["small", "large"] });
        assert_eq!(properties["colours"], json!({ "type": "array", "items": sizes }));
        assert_eq!(properties["speeds"], json!({ "type": "array", "items": { "anyOf": speeds } }));
        assert_eq!(schema.as_object().map(Map::len), Some(3), "{schema}");
    }
}
