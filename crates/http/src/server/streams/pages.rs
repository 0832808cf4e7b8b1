//! Pages by which clients find out how to sign in at the server behind.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use rescind_proto::error_code;

use super::Streams;
use crate::server::{HttpServerEvent, door::Refusal, keys::ReplyKey};

/// Pages that are being fetched at once.
pub(crate) const MAX_PAGES: usize = 64;

/// The longest page, in bytes.
pub const MAX_PAGE: usize = 1 << 20;

impl Streams {
    /// Asks the driver for a page.
    pub(crate) fn want_page(&mut self, key: ReplyKey, path: &str) -> Result<(), Refusal> {
        if self.pages.len() >= MAX_PAGES {
            return Err(Refusal::overloaded("too many pages are asked for at once"));
        }
        self.pages.insert(key);
        self.events.push_back(HttpServerEvent::PageWanted { reply: key, path: path.into() });
        Ok(())
    }

    /// Takes in a page of the server behind; `Err` is the reason why there is none.
    pub(crate) fn take_page(&mut self, key: ReplyKey, page: Result<Response<Bytes>, &str>) {
        let is_long = page.as_ref().is_ok_and(|page| page.body().len() > MAX_PAGE);
        let page = if is_long { Err("it is too long") } else { page };
        self.update(key, |reply| match page {
            Ok(page) => {
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
                reply.refuse(Refusal::new(StatusCode::BAD_GATEWAY, error_code::UPSTREAM_GONE, text));
            }
        });
    }
}
