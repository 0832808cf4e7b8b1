//! The trace that a request belongs to, as it travels in `_meta`.
//!
//! Three members, named by W3C and kept as they came: nothing in them is understood here. A request made while another
//! is handled carries that one's on, so that a trace does not break at a program which knows nothing of it.

use std::borrow::Cow;

use rescind_proto::{
    connection::{IncomingRequest, with_meta},
    frame::Params,
    json,
};

/// What travels, in the order in which it is written.
const NAMES: [&str; 3] = ["traceparent", "tracestate", "baggage"];

/// More than this, all together, is not carried: the size that W3C asks to be supported for the largest of them.
const MAX: usize = 8192;

/// The members of a `_meta` that say which trace a request belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceContext {
    /// In the order of the names.
    values: [Option<Box<str>>; 3],
}

impl TraceContext {
    /// The context of a request, where its dialect has a place for that.
    pub(crate) fn of_request(request: &IncomingRequest) -> Option<Self> {
        Self::of(request.payload.meta().filter(|_| request.dialect.meta)?)
    }

    /// The context in this `_meta`, if there is one and it is plain text of a reasonable size.
    fn of(meta: &[u8]) -> Option<Self> {
        Self::new(|name| json::member(meta, name).and_then(json::text))
    }

    /// The context whose members are these; `None` without a `traceparent`. Values that no header could hold are left
    /// out.
    pub(crate) fn new<'a>(value: impl Fn(&str) -> Option<Cow<'a, str>>) -> Option<Self> {
        let values =
            NAMES.map(|name| value(name).filter(|value| is_plain(value)).map(|value| Box::<str>::from(&*value)));
        let length: usize = values.iter().flatten().map(|value| value.len()).sum();
        (values[0].is_some() && length <= MAX).then_some(Self { values })
    }

    /// Names and values.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&'static str, &str)> {
        NAMES.into_iter().zip(&self.values).filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }

    /// As JSON, ready to be put into an object.
    fn json(&self) -> Vec<u8> {
        let mut members = Vec::new();
        for (name, value) in self.members() {
            if !members.is_empty() {
                members.push(b',');
            }
            json::write_string(&mut members, name);
            members.push(b':');
            json::write_string(&mut members, value);
        }
        members
    }

    /// `params` with this context in their `_meta`; `None` where they name a trace themselves, or have no place.
    pub(crate) fn carried_by(&self, params: &[u8]) -> Option<Vec<u8>> {
        let names_one = |meta| NAMES.iter().any(|name| json::member(meta, name).is_some());
        if Params::of(params).meta.is_some_and(names_one) { None } else { with_meta(params, &self.json()) }
    }
}

/// What a header could hold.
fn is_plain(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = r#""traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01""#;

    fn of(members: &str) -> Option<TraceContext> {
        TraceContext::of(format!("{{{members}}}").as_bytes())
    }

    fn carried(params: &str) -> Option<String> {
        let context = of(&format!("{PARENT},\"other\":1")).unwrap();
        context.carried_by(params.as_bytes()).map(|params| String::from_utf8(params).unwrap())
    }

    #[test]
    fn a_context_finds_its_place() {
        for (params, with) in [
            ("", r#"{"_meta":{P}}"#),
            ("{}", r#"{"_meta":{P}}"#),
            (r#" {"a":1}"#, r#" {"_meta":{P},"a":1}"#),
            (r#"{"_meta":{}}"#, r#"{"_meta":{P}}"#),
            (r#"{"a":"_meta","_meta": {"b":2}}"#, r#"{"a":"_meta","_meta": {P,"b":2}}"#),
        ] {
            assert_eq!(carried(params).unwrap(), with.replace('P', PARENT), "{params}");
        }
    }

    #[test]
    fn who_names_a_trace_keeps_it_and_what_has_no_place_is_left_alone() {
        for params in
            [r#"{"_meta":{"traceparent":"x"}}"#, r#"{"_meta":{"baggage":"x"}}"#, r#"{"_meta":7}"#, "[1]", "[{}]"]
        {
            assert_eq!(carried(params), None, "{params}");
        }
    }

    #[test]
    fn what_is_no_context_is_not_carried() {
        assert_eq!(of(r#""tracestate":"a=b""#), None);
        assert_eq!(of(r#""traceparent":7"#), None);
        assert_eq!(of("\"traceparent\":\"a\\u0000\""), None);
        assert_eq!(of(&format!("{PARENT},\"baggage\":\"{}\"", "x".repeat(MAX))), None);
        let whole = of(&format!(r#""baggage":"k=v","tracestate":"a\u003db",{PARENT}"#)).unwrap();
        assert_eq!(String::from_utf8(whole.json()).unwrap(), format!(r#"{PARENT},"tracestate":"a=b","baggage":"k=v""#));
    }
}
