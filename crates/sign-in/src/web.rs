//! HTTP as signing in needs it: few small requests, each answered in time or not at all.

use std::{fmt, future::Future, pin::Pin, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};

use crate::{SignInError, address};

/// The longest body that is read, in bytes.
pub const MAX_BODY: usize = 128 << 10;

/// Time for one request, its response included.
const PATIENCE: Duration = Duration::from_secs(30);

/// Redirects that are followed, each within one origin.
const MAX_REDIRECTS: usize = 3;

/// The answer to a request that is under way. Dropping it gives the request up.
pub type Sending<'a> = Pin<Box<dyn Future<Output = Result<Reply, HttpError>> + Send + 'a>>;

/// Sends HTTP requests.
pub trait Http: Send + Sync {
    /// Sends a request and reads its response, of whose body at most [`MAX_BODY`] bytes are kept: a longer one is
    /// [`HttpError::TooLarge`]. It follows no redirect and adds no credentials.
    fn send(&self, request: Request<Bytes>) -> Sending<'_>;
}

/// A response, whole. Its `Debug` shows the status alone: there may be tokens in the rest.
#[derive(Clone)]
pub struct Reply {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// Why no response came.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The server was not reached, or did not answer as HTTP has it.
    #[error("{0}")]
    Failed(String),
    /// The response is longer than [`MAX_BODY`].
    #[error("its answer is longer than {MAX_BODY} bytes")]
    TooLarge,
    /// No response came in time.
    #[error("no answer within {PATIENCE:?}")]
    TooSlow,
    /// The response leads elsewhere, or in a circle.
    #[error("its redirect to {0} is not followed")]
    Redirect(String),
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("status", &self.status).finish_non_exhaustive()
    }
}

/// Gets a page. Redirects are followed within its origin only.
pub(crate) async fn get(http: &dyn Http, url: &Uri) -> Result<Reply, SignInError> {
    let mut url = url.clone();
    for _ in 0..=MAX_REDIRECTS {
        let reply = send(http, request(Method::GET, &url, "application/json", Bytes::new())).await?;
        if !reply.status.is_redirection() {
            return Ok(reply);
        }
        let location = reply.headers.get(header::LOCATION).and_then(|location| location.to_str().ok());
        let next = location.and_then(|location| beside(&url, location));
        let Some(next) = next else {
            let to = location.and_then(|location| location.parse::<Uri>().ok()).filter(|to| to.host().is_some());
            let to = to.map_or_else(|| "elsewhere".to_owned(), |to| address::origin(&to));
            return Err(SignInError::http(&url, &HttpError::Redirect(to)));
        };
        url = next;
    }
    Err(SignInError::http(&url, &HttpError::Redirect("yet another page".to_owned())))
}

/// POSTs a body. No redirect is followed: what is sent is for this server alone.
pub(crate) async fn post(
    http: &dyn Http,
    url: &Uri,
    content: &'static str,
    authorization: Option<HeaderValue>,
    body: String,
) -> Result<Reply, SignInError> {
    let mut request = request(Method::POST, url, "application/json", body.into());
    let headers = request.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content));
    headers.extend(authorization.map(|authorization| (header::AUTHORIZATION, authorization)));
    let reply = send(http, request).await?;
    if reply.status.is_redirection() {
        return Err(SignInError::http(url, &HttpError::Redirect("elsewhere".to_owned())));
    }
    Ok(reply)
}

/// Makes a request for an answer of one of these types.
pub(crate) fn request(method: Method, url: &Uri, accepted: &'static str, body: Bytes) -> Request<Bytes> {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = url.clone();
    request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(accepted));
    request
}

/// Sends one request, and waits no longer than is reasonable.
pub(crate) async fn send(http: &dyn Http, request: Request<Bytes>) -> Result<Reply, SignInError> {
    let url = request.uri().clone();
    let reply = tokio::time::timeout(PATIENCE, http.send(request)).await.unwrap_or(Err(HttpError::TooSlow));
    let reply = reply.and_then(|reply| if reply.body.len() > MAX_BODY { Err(HttpError::TooLarge) } else { Ok(reply) });
    reply.map_err(|error| SignInError::http(&url, &error))
}

/// Where a redirect leads, if that is the same origin.
fn beside(url: &Uri, location: &str) -> Option<Uri> {
    let is_path = location.starts_with('/') && !location.starts_with("//");
    let text = if is_path { format!("{}{location}", address::origin(url)) } else { location.to_owned() };
    let next: Uri = text.parse().ok()?;
    (next.host().is_some() && address::origin(&next) == address::origin(url)).then_some(next)
}
