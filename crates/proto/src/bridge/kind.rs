//! What a server may ask a client, which is the same in both eras, and which of that a client answers.

use super::rewrite;
use crate::json;

/// A kind of question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// To have a model continue a text.
    Sampling,
    /// To have the person fill in a form.
    Form,
    /// To have the person open a page.
    Url,
    /// To name folders.
    Roots,
}

/// The kinds that a client answers, by place in [`Kind::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Kinds([bool; Kind::ALL.len()]);

const SAMPLING: &str = "sampling";
const ELICITATION: &str = "elicitation";
const ROOTS: &str = "roots";

impl Kind {
    const ALL: [Self; 4] = [Self::Sampling, Self::Form, Self::Url, Self::Roots];

    /// The kind of a request with this method and these params.
    pub(super) fn of(method: &str, params: Option<&[u8]>) -> Option<Self> {
        let mode = params.and_then(|params| json::member(params, "mode")).and_then(json::text);
        match (method, mode.as_deref()) {
            ("sampling/createMessage", _) => Some(Self::Sampling),
            ("elicitation/create", Some("url")) => Some(Self::Url),
            ("elicitation/create", None | Some("form")) => Some(Self::Form),
            ("roots/list", _) => Some(Self::Roots),
            _ => None,
        }
    }

    /// Its method.
    pub(super) const fn method(self) -> &'static str {
        match self {
            Self::Sampling => "sampling/createMessage",
            Self::Form | Self::Url => "elicitation/create",
            Self::Roots => "roots/list",
        }
    }

    fn is_declared(self, capabilities: &[u8]) -> bool {
        let elicits = |mode: &str| json::lookup(capabilities, &[ELICITATION, mode]).is_some();
        match self {
            Self::Sampling => json::member(capabilities, SAMPLING).is_some(),
            // Before there were two, it was the only one, and had no name.
            Self::Form => json::member(capabilities, ELICITATION).is_some() && (elicits("form") || !elicits("url")),
            Self::Url => elicits("url"),
            Self::Roots => json::member(capabilities, ROOTS).is_some(),
        }
    }
}

impl Kinds {
    /// Those that these capabilities of a client declare.
    pub(super) fn of(capabilities: Option<&[u8]>) -> Self {
        let capabilities = capabilities.unwrap_or(b"{}");
        Self(Kind::ALL.map(|kind| kind.is_declared(capabilities)))
    }

    /// Whether this kind is among them.
    pub(super) const fn contain(self, kind: Kind) -> bool {
        self.0[kind as usize]
    }
}

/// Writes what of a client's capabilities is about questions, and then `more`: all else is the bridge's own.
pub(super) fn declare(capabilities: Option<&[u8]>, more: &[u8], out: &mut Vec<u8>) {
    let member = |name: &str| capabilities.and_then(|capabilities| json::member(capabilities, name));
    let mut declared = Vec::new();
    // Only one era reports that roots have changed.
    let roots = member(ROOTS).map(|_| &b"{}"[..]);
    for (name, value) in [(SAMPLING, member(SAMPLING)), (ELICITATION, member(ELICITATION)), (ROOTS, roots)] {
        let Some(value) = value else { continue };
        rewrite::raw_member(name, value, &mut declared);
    }
    if !declared.is_empty() && !more.is_empty() {
        declared.push(b',');
    }
    declared.extend_from_slice(more);
    rewrite::object(&declared, None, &[], out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_answers_is_what_it_declares() {
        for (capabilities, expected) in [
            ("{}", [false; 4]),
            (r#"{"sampling":{}}"#, [true, false, false, false]),
            (r#"{"elicitation":{}}"#, [false, true, false, false]),
            (r#"{"elicitation":{"form":{}}}"#, [false, true, false, false]),
            (r#"{"elicitation":{"url":{}}}"#, [false, false, true, false]),
            (r#"{"elicitation":{"url":{},"form":{}},"roots":{"listChanged":true}}"#, [false, true, true, true]),
        ] {
            assert_eq!(Kinds::of(Some(capabilities.as_bytes())), Kinds(expected), "{capabilities}");
        }
        assert_eq!(Kinds::of(None), Kinds::default());
    }

    #[test]
    fn only_what_is_about_questions_is_declared_to_the_server() {
        for (capabilities, expected) in [
            (None, "{}"),
            (Some(r#"{"tasks":{},"extensions":{}}"#), "{}"),
            (
                Some(r#"{"roots":{"listChanged":true},"x":1,"sampling":{"tools":{}}}"#),
                r#"{"sampling":{"tools":{}},"roots":{}}"#,
            ),
        ] {
            let mut out = Vec::new();
            declare(capabilities.map(str::as_bytes), b"", &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn a_question_is_of_one_kind() {
        let of = |method, params: &str| Kind::of(method, Some(params.as_bytes()));
        assert_eq!(of("elicitation/create", r#"{"mode":"url"}"#), Some(Kind::Url));
        assert_eq!(of("elicitation/create", r#"{"mode":"form"}"#), Some(Kind::Form));
        assert_eq!(of("elicitation/create", "{}"), Some(Kind::Form));
        assert_eq!(of("elicitation/create", r#"{"mode":"new"}"#), None);
        assert_eq!(of("sampling/createMessage", "{}"), Some(Kind::Sampling));
        assert_eq!(Kind::of("roots/list", None), Some(Kind::Roots));
        assert_eq!(of("ping", "{}"), None);
    }
}
