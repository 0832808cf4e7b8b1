//! What the server answers to an allowed request.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{CONTENT_TYPE, HeaderMap},
};
use percent_encoding::percent_decode_str;
use rescind_feed::{CancelOrder, EndOrder};
use rescind_operator::{Directories, Shim, ShimError, ShimScan, UnusableDirectory};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::timeout;

use super::{
    answer::{self, AnswerBody},
    auth::{Auth, Route},
    events,
    processes::ReapOrder,
    sources::{SessionSource, SessionSources},
};
use crate::{metrics, page};

/// The longest order: a thousand keys and a reason.
const MAX_BODY: usize = 64 << 10;

/// Time for a body.
const BODY_PATIENCE: Duration = Duration::from_secs(10);

/// Answers one request. A request that is not allowed learns nothing.
pub(super) async fn answer(
    auth: &Auth,
    sources: &Arc<SessionSources>,
    request: Request<Incoming>,
) -> Response<AnswerBody> {
    let (head, body) = request.into_parts();
    let inside = match auth.authorize(&head.method, head.uri.path(), head.uri.query(), &head.headers) {
        Ok(Route::Launch) => return answer::see(&auth.inside()),
        Ok(Route::Inside(inside)) => inside,
        Err(refusal) => return answer::text(refusal.status, refusal.words),
    };
    let steps: Vec<&str> = inside.split('/').collect();
    let read = head.method == Method::GET || head.method == Method::HEAD;
    match (read, steps.as_slice()) {
        (true, [""]) => answer::of_type("text/html; charset=utf-8", page::INDEX),
        (true, ["events"]) => answer::stream(events::open(Arc::clone(sources), last_seen(&head.headers))),
        (true, ["sessions", session, "requests", key]) => details(sources, session, key).await,
        (false, ["sessions", session, "cancel"]) if head.method == Method::POST => {
            match order::<CancelOrder>(&head.headers, body).await {
                Ok(order) => obey(sources, session, async |shim| shim.cancel(&order).await).await,
                Err(refused) => refused,
            }
        }
        (false, ["sessions", session, "end"]) if head.method == Method::POST => {
            match order::<EndOrder>(&head.headers, body).await {
                Ok(order) => obey(sources, session, async |shim| shim.end(&order).await).await,
                Err(refused) => refused,
            }
        }
        (true, ["processes"]) => sources.processes.list(sources.directories.as_ref()).await,
        (true, ["processes", "containers"]) => sources.processes.list_containers(sources.directories.as_ref()).await,
        (false, ["processes", "reap"]) if head.method == Method::POST => {
            match order::<ReapOrder>(&head.headers, body).await {
                Ok(order) => sources.processes.reap(sources.directories.as_ref(), order).await,
                Err(refused) => refused,
            }
        }
        (true, ["metrics"]) => metrics(sources).await,
        (true, [name]) => match page::asset(name) {
            Some((kind, text)) => answer::of_type(kind, text),
            None => answer::text(StatusCode::NOT_FOUND, "Not found.\n"),
        },
        (true, _) => answer::text(StatusCode::NOT_FOUND, "Not found.\n"),
        (false, _) => answer::text(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed.\n"),
    }
}

/// The id of the last piece that a browser saw, if it reconnects.
fn last_seen(headers: &HeaderMap) -> &str {
    headers.get("last-event-id").and_then(|id| id.to_str().ok()).unwrap_or_default()
}

async fn metrics(sources: &SessionSources) -> Response<AnswerBody> {
    match sources.directories.as_ref().map_or_else(|| Ok(ShimScan::default()), Directories::scan) {
        Ok(scan) => answer::of_type(metrics::CONTENT_TYPE, metrics::text(scan.shims).await),
        Err(error) => unusable(&error),
    }
}

async fn details(sources: &SessionSources, session: &str, key: &str) -> Response<AnswerBody> {
    let source = match find(sources, session) {
        Ok(source) => source,
        Err(refused) => return refused,
    };
    let Ok(key) = percent_decode_str(key).decode_utf8() else {
        return answer::problem(StatusCode::BAD_REQUEST, "the key is not UTF-8", "use the `key` of a request");
    };
    match source.details(&key).await {
        Ok(Some(details)) => answer::json(StatusCode::OK, &details),
        Ok(None) => {
            answer::problem(StatusCode::NOT_FOUND, "this request is no longer remembered", "it ended a while ago")
        }
        Err(error) => failed(&error),
    }
}

/// Passes an order on to the shim of a session.
async fn obey<T: Serialize>(
    sources: &SessionSources,
    session: &str,
    order: impl AsyncFnOnce(Shim) -> Result<T, ShimError>,
) -> Response<AnswerBody> {
    match find(sources, session) {
        Ok(SessionSource::Shim(shim)) => match order(shim).await {
            Ok(reply) => answer::json(StatusCode::OK, &reply),
            Err(error) => failed(&error),
        },
        Ok(SessionSource::Recording(_)) => answer::problem(
            StatusCode::CONFLICT,
            "nothing in a recording can be cancelled or ended",
            "the session it shows has ended",
        ),
        Err(refused) => refused,
    }
}

#[expect(clippy::result_large_err, reason = "the error is the answer")]
fn find<'a>(sources: &'a SessionSources, session: &str) -> Result<SessionSource<'a>, Response<AnswerBody>> {
    match sources.find(session) {
        Ok(Some(source)) => Ok(source),
        Ok(None) => Err(answer::problem(StatusCode::NOT_FOUND, "no such session", "it may have ended")),
        Err(error) => Err(unusable(&error)),
    }
}

fn unusable(unusable: &UnusableDirectory) -> Response<AnswerBody> {
    answer::problem(StatusCode::BAD_GATEWAY, format!("the directory of sockets {unusable}"), unusable.error.hint())
}

fn failed(error: &ShimError) -> Response<AnswerBody> {
    let (status, hint) = match error {
        ShimError::Refused { status, problem } => {
            return answer::json(StatusCode::from_u16(*status).unwrap_or(StatusCode::BAD_GATEWAY), problem);
        }
        ShimError::NotAnswering => (
            StatusCode::GATEWAY_TIMEOUT,
            "check whether its process is suspended; it may still carry this out when it continues",
        ),
        ShimError::Gone(_) => (StatusCode::BAD_GATEWAY, "its session has ended"),
        ShimError::Foreign(_) | ShimError::Unreachable(_) => {
            (StatusCode::BAD_GATEWAY, "check the directory of sockets")
        }
        ShimError::Unreadable(_) | _ => (StatusCode::BAD_GATEWAY, "use the console of the shim's version"),
    };
    answer::problem(status, format!("the session's shim: {error}"), hint)
}

/// Reads an order, within limits of length and time.
async fn order<T: DeserializeOwned>(headers: &HeaderMap, body: Incoming) -> Result<T, Response<AnswerBody>> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
        let hint = "send it as application/json";
        return Err(answer::problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body is not declared as JSON", hint));
    }
    let bytes = match timeout(BODY_PATIENCE, Limited::new(body, MAX_BODY).collect()).await {
        Ok(Ok(whole)) => whole.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let hint = "a thousand keys and a reason of 1 KiB fit into 64 KiB";
            return Err(answer::problem(StatusCode::PAYLOAD_TOO_LARGE, "the body is longer than 64 KiB", hint));
        }
        Ok(Err(_)) => Bytes::new(),
        Err(_) => {
            return Err(answer::problem(
                StatusCode::REQUEST_TIMEOUT,
                "the body took longer than 10 s",
                "send it at once",
            ));
        }
    };
    let order = serde_json::from_slice(&bytes);
    order
        .map_err(|error| answer::problem(StatusCode::BAD_REQUEST, error.to_string(), "send an order of `rescind-feed`"))
}
