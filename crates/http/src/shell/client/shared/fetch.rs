//! One HTTP request and its response, as a task.
//!
//! A refused request is sent again once there is a token, and the machine is asked before (`client/signing_in.rs`). An
//! authorizer sees requests to the server's own origin only: one that has followed a redirect elsewhere has no token. A
//! person is asked only for what the local client waits for (`HttpClient::is_awaited`).

use std::{
    pin::pin,
    sync::{Arc, Weak},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header, response::Parts};
use http_body::Body;
use hyper::body::Incoming;

use super::{
    super::{
        authorizer::{RefusedRequest, Renewal},
        connect,
        request_body::{Gate, RequestBody},
    },
    Shared,
};
use crate::client::{FetchKey, Lane};

/// Performs a request, and hands the machine what comes of it. Dropping it drops the response, too, and any wait for a token.
pub(super) async fn perform(shared: Arc<Shared>, key: FetchKey, request: Request<Bytes>, lane: Lane) {
    let response = match send(&shared, key, request, lane).await {
        Ok(response) => response,
        Err(Unanswered::Broken(error)) if error.is_connect() => {
            return shared.end(key, |client, now| client.handle_unreached(now, key, &connect::words(&error)));
        }
        Err(Unanswered::Broken(error)) => {
            return shared.end(key, |client, now| client.handle_failed(now, key, &connect::words(&error)));
        }
        Err(Unanswered::NoToken(head, why)) => {
            return shared.end(key, |client, now| client.handle_sign_in_failed(now, key, &head, &why));
        }
        Err(Unanswered::Withdrawn) => return,
    };
    let (head, body) = response.into_parts();
    shared.step(|client, now| client.handle_head(now, key, &head));
    let mut body = pin!(body);
    loop {
        shared.room(key).await;
        match std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    shared.step(|client, now| client.handle_body(now, key, &data));
                }
            }
            Some(Err(error)) => {
                return shared.end(key, |client, now| client.handle_failed(now, key, &connect::words(&error)));
            }
            None => return shared.end(key, |client, now| client.handle_body_end(now, key)),
        }
    }
}

/// Why no response can be taken in.
enum Unanswered {
    Broken(hyper_util::client::legacy::Error),
    /// The server wants a token, and there is none, for this reason.
    NoToken(Box<Parts>, String),
    /// It was cancelled while it waited for one.
    Withdrawn,
}

/// Sends a request; again with another token, if the server wants one.
async fn send(
    shared: &Arc<Shared>,
    key: FetchKey,
    request: Request<Bytes>,
    lane: Lane,
) -> Result<Response<Incoming>, Unanswered> {
    let authorizer = shared.authorizer_of(&request);
    let (head, body) = request.into_parts();
    let mut attempt = 0;
    loop {
        let authorization = match &authorizer {
            Some(authorizer) => authorizer.authorization().await.map(|mut value| {
                value.set_sensitive(true);
                value
            }),
            None => None,
        };
        let mut request = Request::from_parts(head.clone(), ());
        request.headers_mut().extend(authorization.clone().map(|value| (header::AUTHORIZATION, value)));
        let gate: Weak<dyn Gate> = Arc::<Shared>::downgrade(shared);
        let request = request.map(|()| RequestBody::of_fetch(body.clone(), key, gate));
        let response = shared.sender().send(request, lane).await.map_err(Unanswered::Broken)?;
        let status = response.status();
        let Some(authorizer) =
            authorizer.as_ref().filter(|_| matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN))
        else {
            return Ok(response);
        };
        let is_awaited = shared.step(|client, _| {
            client.handle_signing_in(key);
            client.is_awaited(key)
        });
        let headers = response.headers().clone();
        match authorizer.renew(RefusedRequest { authorization, status, headers, is_awaited, attempt }).await {
            Renewal::Renewed => {}
            Renewal::NotWanted => return Ok(response),
            Renewal::Failed(why) => return Err(Unanswered::NoToken(Box::new(response.into_parts().0), why)),
        }
        attempt += 1;
        if !shared.step(|client, now| client.handle_sent_again(now, key)) {
            return Err(Unanswered::Withdrawn);
        }
    }
}
