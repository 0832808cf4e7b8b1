//! `METHOD` or `METHOD:TOOL`: which requests a flag is about.

/// A method, or one tool or prompt of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selector {
    pub(crate) method: Box<str>,
    pub(crate) name: Option<Box<str>>,
}

impl Selector {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':').map_or((text, None), |(method, name)| (method, Some(name))) {
            ("", _) => Err("has no method; write METHOD or METHOD:TOOL".into()),
            (_, Some("")) => Err("has no tool after the `:`; write METHOD or METHOD:TOOL".into()),
            (method, name) => Ok(Self { method: method.into(), name: name.map(Into::into) }),
        }
    }
}

impl std::fmt::Display for Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.method)?;
        self.name.as_ref().map_or(Ok(()), |name| write!(f, ":{name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_names_a_method_and_perhaps_a_tool() {
        let of = |method: &str, name: Option<&str>| Selector { method: method.into(), name: name.map(Into::into) };
        assert_eq!(Selector::parse("tools/call"), Ok(of("tools/call", None)));
        assert_eq!(Selector::parse("tools/call:a:b"), Ok(of("tools/call", Some("a:b"))));
        assert_eq!(of("tools/call", Some("a:b")).to_string(), "tools/call:a:b");
        for text in ["", ":", ":x", "tools/call:"] {
            assert!(Selector::parse(text).is_err(), "{text:?}");
        }
    }
}
