//! Params and results as JSON text: written, and read where the engine has checked it.
//!
//! A `RawValue` takes a text as it is, so it is given that without a second look at each byte. It asks for it by the name
//! that `serde_json` has for this; every other type, and all should a later version expect something else, reads the text in
//! the usual way.

use std::iter;

use serde::{
    Serialize,
    de::{
        DeserializeOwned, Deserializer, Error as _, Visitor,
        value::{Error as NotRaw, MapDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_json::Error;

/// The name by which a `RawValue` asks for a text.
const RAW: &str = "$serde_json::private::RawValue";

/// Most texts fit: a larger one is moved while it is written.
const USUAL: usize = 256;

pub(crate) fn write(value: &(impl Serialize + ?Sized)) -> Result<Vec<u8>, Error> {
    let mut json = Vec::with_capacity(USUAL);
    serde_json::to_writer(&mut json, value)?;
    Ok(json)
}

/// Writes params as the engine takes them: JSON, or nothing.
pub(crate) fn to_params(params: &(impl Serialize + ?Sized)) -> Result<Vec<u8>, Error> {
    let mut json = write(params)?;
    if json == b"null" {
        json.clear();
    }
    Ok(json)
}

/// Reads a text that the engine has checked: one value, without space around it.
pub(crate) fn read<T: DeserializeOwned>(json: &[u8]) -> Result<T, Error> {
    let raw = core::str::from_utf8(json).ok().and_then(|json| T::deserialize(CheckedJson(json)).ok());
    raw.map_or_else(|| serde_json::from_slice(json), Ok)
}

/// Has a text for a `RawValue`, and nothing for other types.
struct CheckedJson<'a>(&'a str);

impl<'de> Deserializer<'de> for CheckedJson<'de> {
    type Error = NotRaw;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, NotRaw> {
        Err(NotRaw::custom(""))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &str, visitor: V) -> Result<V::Value, NotRaw> {
        if name != RAW {
            return self.deserialize_any(visitor);
        }
        visitor.visit_map(MapDeserializer::new(iter::once((RAW, self.0))))
    }

    forward_to_deserialize_any! {
        bool char str string i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 bytes byte_buf option unit seq map identifier
        ignored_any unit_struct tuple tuple_struct struct enum
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, collections::BTreeMap};

    use serde::Deserialize;
    use serde_json::{Value, value::RawValue};

    use super::*;

    const TEXTS: [&str; 14] = [
        "null",
        "true",
        "-1.5e3",
        "340282366920938463463374607431768211455",
        r#""""#,
        r#""é\u0000\ud83d\ude00""#,
        "[]",
        r#"[1,"two",[null]]"#,
        "{}",
        r#"{"a":1,"a":2}"#,
        r#"{ "a" : [ 1 ] }"#,
        r#"{"some":{"deep":{"value":[0]}}}"#,
        r#""two""#,
        "7",
    ];

    #[derive(Debug, PartialEq, Deserialize)]
    enum Word {
        #[serde(rename = "two")]
        Two,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Wrapped(u8);

    /// What is read of each text is what `serde_json` reads.
    fn compare<T: DeserializeOwned + std::fmt::Debug>() {
        for text in TEXTS {
            let show = |read: Result<T, Error>| format!("{:?}", read.map_err(|error| error.to_string()));
            assert_eq!(show(read(text.as_bytes())), show(serde_json::from_str(text)), "{text}");
        }
    }

    #[test]
    fn every_type_is_read_as_serde_json_reads_it() {
        compare::<Box<RawValue>>();
        compare::<Value>();
        compare::<()>();
        compare::<bool>();
        compare::<f32>();
        compare::<u128>();
        compare::<String>();
        compare::<Option<Box<RawValue>>>();
        compare::<Vec<Box<RawValue>>>();
        compare::<BTreeMap<String, Box<RawValue>>>();
        compare::<Word>();
        compare::<Wrapped>();
    }

    #[test]
    fn a_raw_value_is_given_the_text_without_a_second_look() {
        let raw: Box<RawValue> = read(b"not looked at").expect("it is taken as it is");
        assert_eq!(raw.get(), "not looked at");
    }

    #[test]
    fn what_takes_no_text_under_that_name_is_read_in_the_usual_way() {
        thread_local! {
            static TRIES: Cell<usize> = const { Cell::new(0) };
        }
        #[derive(Debug)]
        struct Later(Value);
        impl<'de> Deserialize<'de> for Later {
            fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
                if TRIES.replace(1) == 0 {
                    return Wrapped::deserialize(json).map(|_| Self(Value::Null));
                }
                Value::deserialize(json).map(Self)
            }
        }
        assert_eq!(read::<Later>(br#"{"a":1}"#).expect("it is JSON").0, serde_json::json!({ "a": 1 }));
    }
}
