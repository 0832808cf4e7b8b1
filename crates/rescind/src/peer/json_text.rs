//! Params and results as JSON text: written, and read where the engine has checked it.
//!
//! A `RawValue` takes a text as it is, so it is given that without a second look at each byte. It asks for it by the name
//! that `serde_json` has for this; should a later version expect something else, the text is read in the usual way.

use std::iter;

use serde::{
    Serialize,
    de::{DeserializeOwned, Deserializer, Visitor, value::MapDeserializer},
};
use serde_json::{Error, de::SliceRead};

/// The name by which a `RawValue` asks for a text.
const RAW: &str = "$serde_json::private::RawValue";

/// Most texts fit: a larger one is moved while it is written.
const USUAL: usize = 256;

pub(crate) fn write(value: &(impl Serialize + ?Sized)) -> Result<Vec<u8>, Error> {
    let mut json = Vec::with_capacity(USUAL);
    serde_json::to_writer(&mut json, value)?;
    Ok(json)
}

/// Reads a text that the engine has checked: one value, without space around it.
pub(crate) fn read<T: DeserializeOwned>(json: &[u8]) -> Result<T, Error> {
    let checked = core::str::from_utf8(json).ok().and_then(|json| T::deserialize(CheckedJson(json)).ok());
    checked.map_or_else(|| serde_json::from_slice(json), Ok)
}

struct CheckedJson<'a>(&'a str);

impl<'de> CheckedJson<'de> {
    fn read_usually<T>(
        self,
        read: impl FnOnce(&mut serde_json::Deserializer<SliceRead<'de>>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut json = serde_json::Deserializer::from_slice(self.0.as_bytes());
        let value = read(&mut json)?;
        json.end()?;
        Ok(value)
    }
}

macro_rules! read_usually {
    ($($method:ident($($argument:ident: $type:ty),*))*) => {$(
        fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, Error> {
            self.read_usually(|json| json.$method($($argument,)* visitor))
        }
    )*};
}

impl<'de> Deserializer<'de> for CheckedJson<'de> {
    type Error = Error;

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        if name == RAW {
            return visitor.visit_map(MapDeserializer::new(iter::once((RAW, self.0))));
        }
        self.read_usually(|json| json.deserialize_newtype_struct(name, visitor))
    }

    read_usually! {
        deserialize_any() deserialize_bool() deserialize_char() deserialize_str() deserialize_string()
        deserialize_i8() deserialize_i16() deserialize_i32() deserialize_i64() deserialize_i128()
        deserialize_u8() deserialize_u16() deserialize_u32() deserialize_u64() deserialize_u128()
        deserialize_f32() deserialize_f64() deserialize_bytes() deserialize_byte_buf()
        deserialize_option() deserialize_unit() deserialize_seq() deserialize_map()
        deserialize_identifier() deserialize_ignored_any()
        deserialize_unit_struct(name: &'static str) deserialize_tuple(len: usize)
        deserialize_tuple_struct(name: &'static str, len: usize)
        deserialize_struct(name: &'static str, fields: &'static [&'static str])
        deserialize_enum(name: &'static str, variants: &'static [&'static str])
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
