//! The page by which a server names itself and its authorization servers (RFC 9728).

use http::Uri;

use crate::{Scopes, SignInError, address, document::Document, error::excerpt};

/// How errors name the page.
const PAGE: &str = "page about the server";

/// The content of such a page, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    /// The name under which a token is asked for (RFC 8707).
    pub(crate) name: String,
    /// Those that may give a token; at least one.
    pub(crate) issuers: Vec<String>,
    /// The scopes that the server knows.
    pub(crate) scopes: Scopes,
}

impl Resource {
    /// Reads the page of `server`. It has to name that server, or a resource that contains it: a token for another
    /// server would be sent to the wrong one.
    pub(crate) fn read(server: &Uri, body: &[u8]) -> Result<Self, SignInError> {
        let refused = |why: String| Err(SignInError::page(PAGE, why));
        let Some(page) = Document::read(body) else { return refused("it cannot be read".to_owned()) };
        let name = page.text("resource").unwrap_or_default().to_owned();
        let is_its_own = name.parse().is_ok_and(|named: Uri| address::covers(&named, server));
        if !is_its_own {
            let named = excerpt(&name);
            return refused(format!("it is about `{named}`, not about {}", address::canonical(server)));
        }
        let issuers = page.texts("authorization_servers").unwrap_or_default();
        if issuers.is_empty() {
            return refused("it names no authorization server".to_owned());
        }
        let scopes = page.texts("scopes_supported").unwrap_or_default().into_iter().collect();
        Ok(Self { name, issuers, scopes })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(resource: &str, issuers: &[&str]) -> Result<Resource, String> {
        let page = json!({"resource": resource, "authorization_servers": issuers, "scopes_supported": ["b", "a"]});
        let server = "https://mcp.example/v1/mcp?key=1".parse().unwrap();
        Resource::read(&server, page.to_string().as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_page_is_about_its_server_or_what_that_lies_within() {
        for name in ["https://mcp.example/v1/mcp", "https://MCP.example/v1/", "https://mcp.example"] {
            let found = read(name, &["https://as.example"]).unwrap();
            assert_eq!((&*found.name, found.scopes.to_string()), (name, "a b".to_owned()));
        }
        for name in ["https://evil.example/v1/mcp", "https://mcp.example/v1/mcp2", "http://mcp.example/v1/mcp", "", "x"]
        {
            assert!(read(name, &["https://as.example"]).unwrap_err().contains("it is about `"), "{name}");
        }
    }

    #[test]
    fn a_page_names_an_authorization_server() {
        assert!(read("https://mcp.example", &[]).unwrap_err().contains("names no authorization server"));
        let server = "https://mcp.example".parse().unwrap();
        for body in ["", "[]", "{", r#"{"resource": 5}"#] {
            assert!(Resource::read(&server, body.as_bytes()).is_err(), "{body}");
        }
    }
}
