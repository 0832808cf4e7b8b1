//! Pages by which clients find out how to sign in at the server behind: which paths are theirs.

/// The names of those pages (RFC 9728, RFC 8414, OpenID Connect Discovery).
const PAGES: [&str; 3] = ["oauth-protected-resource", "oauth-authorization-server", "openid-configuration"];

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
