//! Where a server sends its clients.

use http::{Method, StatusCode, header, response::Parts};
use rescind_proto::time::Instant;

use super::{
    FetchKey, HttpClient,
    fetch::{Aim, Fetch},
    headers::{self, Origin, Target},
    refusal::Refusal,
    words,
};

impl HttpClient {
    /// Follows a redirect; `false` if it is none, and `true` if it is followed, or was refused in words.
    pub(crate) fn handle_redirect(&mut self, now: Instant, key: FetchKey, head: &Parts) -> bool {
        let Some((errand, fetch)) = self.errands.fetch(key) else { return true };
        let location = head.headers.get(header::LOCATION).and_then(|location| location.to_str().ok());
        let Some(target) = location.and_then(|location| headers::resolve(&fetch.target.0, location)) else {
            return false;
        };
        let method = errand.method(&fetch.aim);
        // Others turn a POST into a GET.
        let keeps_method = matches!(head.status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        let is_redirect = keeps_method
            || matches!(head.status, StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER);
        if !is_redirect {
            return false;
        }
        let to = Origin::of(&target);
        let refused = if !keeps_method && method != Method::GET {
            let status = words::status(head.status);
            let path = words::excerpt(target.path().as_bytes());
            Some(format!("redirects {method} with {status}, to {to}{path}: give the address that serves MCP"))
        } else if fetch.redirects >= self.config.max_redirects {
            Some(format!("redirects more than {} times, at last to {to}", self.config.max_redirects))
        } else if fetch.target.0.scheme_str() == Some("https") && target.scheme_str() == Some("http") {
            Some(format!("redirects to {to}, which is not encrypted; that is not followed"))
        } else {
            None
        };
        if let Some(text) = refused {
            let refusal = Refusal { unusable: Some(text), ..fetch.refusal(head) };
            self.refuse(now, key.errand, refusal);
            return true;
        }
        let Some(fetch) = self.errands.abort(key.errand) else { return true };
        let (redirects, is_send) = (fetch.redirects + 1, matches!(fetch.aim, Aim::Send));
        let next = Fetch { redirects, ..Fetch::new(fetch.aim, Target(target), fetch.queue) };
        self.errands.carry_with(key.errand, next);
        if is_send {
            self.errands.come_back(key.errand);
        }
        true
    }
}
