//! What a server that refuses a request wants (`WWW-Authenticate`: RFC 9110, 11.6.1; RFC 6750, 3).

use http::{HeaderMap, header};

use crate::Scopes;

/// The challenge `Bearer` of a response, if it has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Challenge {
    /// Where the page about the resource is.
    pub resource_metadata: Option<String>,
    /// The scopes that a token is to have.
    pub scope: Option<Scopes>,
    /// Why the request was refused, such as `invalid_token` or `insufficient_scope`.
    pub error: Option<String>,
}

impl Challenge {
    /// Reads the challenge `Bearer` among those of a response; `None` if there are only others. A response without any
    /// challenge has an empty one: servers of 2025-03-26 may send none.
    #[must_use]
    pub fn read(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(header::WWW_AUTHENTICATE);
        let texts: Vec<&str> = values.iter().filter_map(|value| value.to_str().ok()).collect();
        if texts.is_empty() {
            return Some(Self::default());
        }
        texts.iter().find_map(|text| Self::parse(text))
    }

    /// Whether the token is good and may do too little.
    #[must_use]
    pub fn is_insufficient_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    /// Finds the challenge `Bearer` in one header, which may hold several.
    fn parse(text: &str) -> Option<Self> {
        let mut found: Option<Self> = None;
        let mut is_bearer = false;
        for part in split(text) {
            let (scheme, parameter) = scheme_and_parameter(part);
            if let Some(scheme) = scheme {
                if found.is_some() {
                    break;
                }
                is_bearer = scheme.eq_ignore_ascii_case("Bearer");
                if is_bearer {
                    found = Some(Self::default());
                }
            }
            let Some(challenge) = found.as_mut().filter(|_| is_bearer) else { continue };
            let Some((name, value)) = parameter.split_once('=') else { continue };
            let value = unquoted(value.trim());
            match &*name.trim().to_ascii_lowercase() {
                "resource_metadata" => challenge.resource_metadata = Some(value),
                "scope" => challenge.scope = Some(Scopes::parse(&value)).filter(|scope| !scope.is_empty()),
                "error" => challenge.error = Some(value),
                _ => {}
            }
        }
        found
    }
}

/// The parts between commas that stand in no quoted string.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let parts = text.split(move |letter: char| {
        let is_literal = is_escaped;
        is_escaped = is_quoted && letter == '\\' && !is_literal;
        if letter == '"' && !is_literal {
            is_quoted = !is_quoted;
        }
        letter == ',' && !is_quoted
    });
    parts.map(str::trim).filter(|part| !part.is_empty())
}

/// A part begins a challenge if a word without `=` stands first.
fn scheme_and_parameter(part: &str) -> (Option<&str>, &str) {
    let (first, rest) = part.split_once(char::is_whitespace).unwrap_or((part, ""));
    // `name = value` has spaces, too.
    if first.contains('=') || rest.trim_start().starts_with('=') { (None, part) } else { (Some(first), rest.trim()) }
}

fn unquoted(value: &str) -> String {
    let Some(quoted) = value.strip_prefix('"') else { return value.to_owned() };
    let quoted = quoted.strip_suffix('"').unwrap_or(quoted);
    let mut is_escaped = false;
    let kept = quoted.chars().filter(|letter| {
        is_escaped = *letter == '\\' && !is_escaped;
        !is_escaped
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&str]) -> Option<Challenge> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::WWW_AUTHENTICATE, value.parse().unwrap());
        }
        Challenge::read(&headers)
    }

    fn challenge(resource_metadata: &str, scope: &str, error: &str) -> Option<Challenge> {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let scope = some(scope).map(|scope| Scopes::parse(&scope));
        Some(Challenge { resource_metadata: some(resource_metadata), scope, error: some(error) })
    }

    #[test]
    fn a_challenge_is_found_among_others() {
        for (values, expected) in [
            (&["Bearer"][..], challenge("", "", "")),
            (&["bearer resource_metadata=\"https://a/b\""], challenge("https://a/b", "", "")),
            (
                &[r#"Bearer realm="x, y", error=insufficient_scope, scope="a b""#],
                challenge("", "a b", "insufficient_scope"),
            ),
            (&[r#"Basic realm="Bearer scope=evil", Bearer scope="a""#], challenge("", "a", "")),
            (&[r#"Bearer scope="a", Basic realm="x", scope="evil""#], challenge("", "a", "")),
            (
                &["Negotiate abc==", "Digest realm=x", "Bearer error = \"invalid_token\""],
                challenge("", "", "invalid_token"),
            ),
            (&[r#"Bearer error="a\"b\\", scope="""#], challenge("", "", r#"a"b\"#)),
            (&[], challenge("", "", "")),
        ] {
            assert_eq!(read(values), expected, "{values:?}");
        }
        // Whatever that means.
        assert!(read(&[r#"Bearer scope="never closed, error="x"#]).is_some());
    }

    #[test]
    fn other_schemes_are_none_of_ours() {
        assert_eq!(read(&["Basic realm=\"x\""]), None);
        assert_eq!(read(&["Negotiate", "NTLM"]), None);
    }
}
