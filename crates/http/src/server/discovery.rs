//! Pages by which clients find out how to sign in at the server behind.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use rescind_proto::error_code;

use super::{Access, HttpServer, HttpServerEvent, ReplyKey, refusal::Refusal};

/// The names of those pages (RFC 9728, RFC 8414, OpenID Connect Discovery).
const PAGES: [&str; 3] = ["oauth-protected-resource", "oauth-authorization-server", "openid-configuration"];

/// Pages that are being fetched at once.
pub(crate) const MAX_PAGES: usize = 64;

/// The longest page, in bytes.
pub const MAX_PAGE: usize = 1 << 20;

/// Whether this is the path of such a page: its well-known place, also with the path of what it describes behind it, or
/// before it.
pub(crate) fn is_page(path: &str) -> bool {
    let is_named = |rest: &str| {
        let name = rest.split('/').next().unwrap_or_default();
        PAGES.contains(&name)
    };
    let Some((before, rest)) = path.split_once("/.well-known/") else { return false };
    // A path that leads elsewhere is not passed on.
    let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic() && !b"\\%".contains(&byte))
        && !path.split('/').any(|segment| matches!(segment, "." | ".."));
    is_plain && is_named(rest) && (before.is_empty() || !rest.contains('/'))
}

impl HttpServer {
    /// Asks the driver for a page.
    pub(crate) fn want_page(&mut self, key: ReplyKey, path: &str) -> Result<(), Refusal> {
        if self.pages.len() >= MAX_PAGES {
            return Err(self.overloaded("too many pages are asked for at once"));
        }
        self.pages.insert(key);
        self.report(HttpServerEvent::PageWanted { reply: key, path: path.into() });
        Ok(())
    }

    /// Says how to sign in here.
    pub(crate) fn describe(&mut self, key: ReplyKey) {
        let Access::Issuer(issuer) = &self.config.access else { return };
        if let Some(reply) = self.replies.get_mut(&key) {
            reply.message(StatusCode::OK, issuer.page().clone());
        }
    }

    /// Takes in a page of the server behind, of [`MAX_PAGE`] bytes at most; `Err` says why there is none.
    pub fn handle_page(&mut self, key: ReplyKey, page: Result<Response<Bytes>, &str>) {
        match page {
            Ok(page) if page.body().len() > MAX_PAGE => return self.handle_page(key, Err("it is too long")),
            Ok(page) => {
                let Some(reply) = self.replies.get_mut(&key) else { return };
                let (head, body) = page.into_parts();
                for name in [header::LOCATION, header::CACHE_CONTROL] {
                    head.headers
                        .get(&name)
                        .cloned()
                        .into_iter()
                        .for_each(|value| reply.add_header(name.clone(), value));
                }
                reply.whole(head.status, head.headers.get(header::CONTENT_TYPE).cloned(), body);
                // Whatever it is, it is not of this origin.
                reply.add_header(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            }
            Err(why) => {
                let text = format!("the server behind did not give this page: {why}");
                self.refuse(key, Refusal::new(StatusCode::BAD_GATEWAY, error_code::UPSTREAM_GONE, text));
            }
        }
        self.report_reply(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_are_known_by_their_place() {
        for path in [
            "/.well-known/oauth-protected-resource",
            "/.well-known/oauth-protected-resource/mcp",
            "/.well-known/oauth-authorization-server/tenant/1",
            "/.well-known/openid-configuration",
            "/tenant/1/.well-known/openid-configuration",
        ] {
            assert!(is_page(path), "{path}");
        }
        for path in [
            "/mcp",
            "/.well-known/",
            "/.well-known/security.txt",
            "/.well-known/oauth-protected-resources",
            "/.well-known/oauth-protected-resource/../../admin",
            "/.well-known/oauth-protected-resource/./x",
            "/.well-known/oauth-protected-resource/%2e%2e/%2E%2e/admin",
            "/.well-known/openid-configuration/..%2f..%2fadmin",
            "/.well-known/openid-configuration\\..\\..\\admin",
            "/admin/.well-known/openid-configuration/x",
            "/../.well-known/openid-configuration",
        ] {
            assert!(!is_page(path), "{path}");
        }
    }
}
