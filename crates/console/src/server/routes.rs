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

/// The answer to a request that is carried out, or to one that is not.
type Answered = Result<Response<AnswerBody>, Response<AnswerBody>>;

/// Answers one request. A request that is not allowed learns nothing.
pub(super) async fn answer(
    auth: &Auth,
    sources: &Arc<SessionSources>,
    request: Request<Incoming>,
) -> Response<AnswerBody> {
    let (Ok(answer) | Err(answer)) = carry_out(auth, sources, request).await;
    answer
}

async fn carry_out(auth: &Auth, sources: &Arc<SessionSources>, request: Request<Incoming>) -> Answered {
    let (head, body) = request.into_parts();
    let inside = match auth.authorize(&head.method, head.uri.path(), head.uri.query(), &head.headers) {
        Ok(Route::Launch) => return Ok(answer::see(&auth.inside())),
        Ok(Route::Inside(inside)) => inside,
        Err(refusal) => return Err(answer::text(refusal.status, refusal.words)),
    };
    let steps: Vec<&str> = inside.split('/').collect();
    let read = head.method == Method::GET || head.method == Method::HEAD;
    let directories = sources.directories.as_ref();
    Ok(match (read, steps.as_slice()) {
        (true, [""]) => answer::of_type("text/html; charset=utf-8", page::INDEX),
        (true, ["events"]) => answer::stream(events::open(Arc::clone(sources), last_seen(&head.headers))),
        (true, ["sessions", session, "requests", key]) => details(sources, session, key).await?,
        (false, ["sessions", session, "cancel"]) if head.method == Method::POST => {
            let order: CancelOrder = order(&head.headers, body).await?;
            obey(sources, session, async |shim| shim.cancel(&order).await).await?
        }
        (false, ["sessions", session, "end"]) if head.method == Method::POST => {
            let order: EndOrder = order(&head.headers, body).await?;
            obey(sources, session, async |shim| shim.end(&order).await).await?
        }
        (true, ["processes"]) => sources.processes.list(directories).await,
        (true, ["processes", "containers"]) => sources.processes.list_containers(directories).await,
        (false, ["processes", "reap"]) if head.method == Method::POST => {
            let order: ReapOrder = order(&head.headers, body).await?;
            sources.processes.reap(directories, order).await
        }
        (true, ["metrics"]) => {
            let scan = directories.map_or_else(|| Ok(ShimScan::default()), Directories::scan);
            let scan = scan.map_err(|error| unusable(&error))?;
            answer::of_type(metrics::CONTENT_TYPE, metrics::text(scan.shims).await)
        }
        (true, [name]) => match page::asset(name) {
            Some((kind, text)) => answer::of_type(kind, text),
            None => answer::text(StatusCode::NOT_FOUND, "Not found.\n"),
        },
        (true, _) => answer::text(StatusCode::NOT_FOUND, "Not found.\n"),
        (false, _) => answer::text(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed.\n"),
    })
}

/// The id of the last piece that a browser saw, if it reconnects.
fn last_seen(headers: &HeaderMap) -> &str {
    headers.get("last-event-id").and_then(|id| id.to_str().ok()).unwrap_or_default()
}

async fn details(sources: &SessionSources, session: &str, key: &str) -> Answered {
    let source = find(sources, session)?;
    let key = percent_decode_str(key)
        .decode_utf8()
        .map_err(|_| answer::problem(StatusCode::BAD_REQUEST, "the key is not UTF-8", "use the `key` of a request"))?;
    let details = source.details(&key).await.map_err(|error| failed(&error))?.ok_or_else(|| {
        answer::problem(StatusCode::NOT_FOUND, "this request is no longer remembered", "it ended a while ago")
    })?;
    Ok(answer::json(StatusCode::OK, &details))
}

/// Passes an order on to the shim of a session.
async fn obey<T: Serialize>(
    sources: &SessionSources,
    session: &str,
    order: impl AsyncFnOnce(Shim) -> Result<T, ShimError>,
) -> Answered {
    let SessionSource::Shim(shim) = find(sources, session)? else {
        let (error, hint) = ("nothing in a recording can be cancelled or ended", "the session it shows has ended");
        return Err(answer::problem(StatusCode::CONFLICT, error, hint));
    };
    let reply = order(shim).await.map_err(|error| failed(&error))?;
    Ok(answer::json(StatusCode::OK, &reply))
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
