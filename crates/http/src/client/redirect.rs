//! Where a server sends its clients.

use http::{Method, StatusCode, header, response::Parts};
use rescind_proto::time::Instant;

use super::{
    FetchKey, HttpClient,
    fetch::{Fetch, Phase, Refusal, Role},
    headers::{self, Origin, Target},
    stream::Stage,
    words,
};

impl HttpClient {
    /// Follows a redirect; `false` if it is none, and `true` if it is followed, or was refused in words.
    pub(crate) fn handle_redirect(&mut self, now: Instant, key: FetchKey, head: &Parts) -> bool {
        let Some(fetch) = self.fetches.get(&key) else { return true };
        let location = head.headers.get(header::LOCATION).and_then(|location| location.to_str().ok());
        let Some(target) = location.and_then(|location| headers::resolve(&fetch.target.0, location)) else {
            return false;
        };
        let method = match fetch.role {
            Role::Post(_) | Role::OneWay(_) => Method::POST,
            Role::Get(_) | Role::Probe(_) => Method::GET,
            Role::End { .. } => Method::DELETE,
        };
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
            let refusal = Refusal { unusable: Some(text), ..self.refusal(key, head) };
            self.refuse(now, key, refusal);
            return true;
        }
        let Some(fetch) = self.abort(key) else { return true };
        let next = Fetch {
            redirects: fetch.redirects + 1,
            queue: fetch.queue,
            ..Fetch::new(fetch.role, Target(target), Phase::Queued)
        };
        let role = next.role.clone();
        let to = self.start(next);
        match role {
            Role::Post(stream) | Role::Get(stream) => {
                let Some(stream) = self.streams.get_mut(&stream) else { return true };
                if let Role::Get(_) = role {
                    stream.stage = Stage::Asking(to);
                } else {
                    stream.come_back(&mut self.events);
                    stream.stage = Stage::Posting(to);
                }
            }
            Role::Probe(probe) => self.set_stage(probe.stream, Stage::Probing(to)),
            Role::OneWay(one_way) => self.move_one_way(key, to, &one_way.kind),
            Role::End { .. } => {}
        }
        true
    }
}
