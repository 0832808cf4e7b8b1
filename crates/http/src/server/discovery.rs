//! Pages by which clients find out how to sign in at the server behind.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use rescind_proto::error_code;

use super::{
    HttpServer, HttpServerEvent, ReplyKey,
    door::{Access, Refusal},
};

/// Pages that are being fetched at once.
pub(crate) const MAX_PAGES: usize = 64;

/// The longest page, in bytes.
pub const MAX_PAGE: usize = 1 << 20;

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

    /// Answers with the page that describes how to sign in here.
    pub(crate) fn describe(&mut self, key: ReplyKey) {
        let Access::Issuer(issuer) = &self.config.access else { return };
        if let Some(reply) = self.replies.get_mut(&key) {
            reply.message(StatusCode::OK, issuer.page().clone());
        }
    }

    /// Takes in a page of the server behind, of [`MAX_PAGE`] bytes at most; `Err` is the reason why there is none.
    pub fn handle_page(&mut self, key: ReplyKey, page: Result<Response<Bytes>, &str>) {
        match page {
            Ok(page) if page.body().len() > MAX_PAGE => return self.handle_page(key, Err("it is too long")),
            Ok(page) => {
                let Some(reply) = self.replies.get_mut(&key) else { return };
                let (head, body) = page.into_parts();
                for name in [header::LOCATION, header::CACHE_CONTROL] {
                    let value = head.headers.get(&name).cloned();
                    value.into_iter().for_each(|value| reply.add_header(name.clone(), value));
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
