//! A client: opening a session, listing tools, calling them.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
    time::Duration,
};

use rescind_proto::{dialect::mcp::VERSION_IN_META, error_code};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{CLIENT_CAPABILITIES, CLIENT_INFO, Implementation, Revision, RoundTrips, SERVER_INFO, ToolResult};
use crate::peer::{Builder, CallError, ErrorObject, Peer};

/// How long a server may take to say that it has no `server/discover`; some of the older ones say nothing at all.
const PROBE: Duration = Duration::from_secs(10);

/// The most pages of tools that a server can make us ask for.
const MAX_PAGES: usize = 1000;

/// A client of one server. Clones share the session.
///
/// [`open`](Self::open) it first. What it sends are ordinary [calls](crate::peer::Call) of its [`Peer`]: dropping one
/// cancels it.
#[derive(Clone, Debug)]
pub struct Client {
    peer: Peer,
    info: Arc<Implementation>,
    capabilities: Map<String, Value>,
    agreed: Arc<OnceLock<Revision>>,
    /// Through which our own handlers are asked what a server asks in an answer.
    asking: Arc<OnceLock<Peer>>,
}

/// What a server says of itself, in its own words: untrusted.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// The revision that both speak from now on.
    pub revision: Revision,
    /// Its name; empty if it gave none.
    pub name: String,
    /// Its version; empty if it gave none.
    pub version: String,
    /// What it can do.
    pub capabilities: Value,
    /// How it is to be used, in words for the model.
    pub instructions: Option<String>,
}

/// A tool, as its server describes it: untrusted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolInfo {
    /// Its name.
    pub name: String,
    /// What it does.
    #[serde(default)]
    pub description: String,
    /// The JSON schema of its arguments.
    #[serde(default)]
    pub input_schema: Value,
    /// Everything else.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Why no session was opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The handshake failed.
    #[error("the handshake failed: {0}")]
    Call(#[from] CallError),
    /// The server speaks no revision that we do.
    #[error("the server speaks {0}, which this client does not")]
    Revision(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeResult {
    protocol_version: String,
    #[serde(default)]
    capabilities: Value,
    #[serde(default)]
    server_info: Implementation,
    instructions: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiscoverResult {
    supported_versions: Vec<String>,
    #[serde(default)]
    capabilities: Value,
    instructions: Option<String>,
    #[serde(default, rename = "_meta")]
    meta: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolsPage {
    tools: Vec<ToolInfo>,
    next_cursor: Option<String>,
}

impl Client {
    /// A connection that answers what every client answers: `ping`. Add routes of your own, then
    /// [connect](Builder::connect) it.
    pub fn builder() -> Builder {
        Peer::builder(None).on_request("ping", super::ping())
    }

    /// A client of the server at the other side of `peer`, under this name and version.
    #[must_use]
    pub fn new(peer: Peer, name: &str, version: &str) -> Self {
        let info = Arc::new(Implementation { name: name.to_owned(), version: version.to_owned() });
        Self { peer, info, capabilities: Map::new(), agreed: Arc::default(), asking: Arc::default() }
    }

    /// Declares a capability, whose routes the builder has.
    #[must_use]
    pub fn capability(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.capabilities.insert(name.to_owned(), value.into());
        self
    }

    /// Opens the session in the newest way that the server knows: [`discover`](Self::discover), and where that fails,
    /// or is not answered within 10 s, [`initialize`](Self::initialize).
    ///
    /// # Errors
    ///
    /// Both failed, and the error is the second's; or the connection ended, or the call was cancelled, during the first.
    pub async fn open(&self) -> Result<ServerInfo, OpenError> {
        match self.ask(Some(PROBE)).await {
            Err(OpenError::Call(error @ (CallError::Closed | CallError::Cancelled(_)))) => Err(error.into()),
            Ok(info) => Ok(info),
            Err(_) => self.initialize().await,
        }
    }

    /// The handshake of the revisions up to 2025-11-25. It is never cancelled on the wire (MCP-C03).
    ///
    /// # Errors
    ///
    /// The call failed, or the server speaks no revision that we do.
    pub async fn initialize(&self) -> Result<ServerInfo, OpenError> {
        let params = json!({
            "protocolVersion": Revision::LATEST_LEGACY.date(),
            "capabilities": self.capabilities,
            "clientInfo": *self.info,
        });
        let greeting: InitializeResult = self.peer.request("initialize", &params).await?;
        let InitializeResult { protocol_version, capabilities, server_info, instructions } = greeting;
        let revision = Revision::by_date(&protocol_version).filter(|revision| !revision.is_modern());
        let revision = revision.ok_or(OpenError::Revision(protocol_version))?;
        let revision = *self.agreed.get_or_init(|| revision);
        self.peer.notify_now("notifications/initialized", &())?;
        let Implementation { name, version } = server_info;
        Ok(ServerInfo { revision, name, version, capabilities, instructions })
    }

    /// Asks the server what it is, as 2026-07-28 has it; from then on every request names that revision.
    ///
    /// # Errors
    ///
    /// The call failed: -32601 is what an older server answers. Or the server does not speak 2026-07-28.
    pub async fn discover(&self) -> Result<ServerInfo, OpenError> {
        self.ask(None).await
    }

    async fn ask(&self, limit: Option<Duration>) -> Result<ServerInfo, OpenError> {
        let params = json!({ "_meta": self.meta(Revision::V2026_07_28) });
        let call = self.peer.request::<DiscoverResult>("server/discover", &params);
        let call = if let Some(limit) = limit { call.response_timeout(limit) } else { call };
        let DiscoverResult { supported_versions, capabilities, instructions, meta } = call.await?;
        let modern = Revision::V2026_07_28;
        if !supported_versions.iter().any(|version| version == modern.date()) {
            return Err(OpenError::Revision(supported_versions.join(", ")));
        }
        let revision = *self.agreed.get_or_init(|| modern);
        let Implementation { name, version } = serde_json::from_value(meta[SERVER_INFO].clone()).unwrap_or_default();
        Ok(ServerInfo { revision, name, version, capabilities, instructions })
    }

    /// All tools of the server, from as many pages as it has.
    ///
    /// # Errors
    ///
    /// A call failed, or there are more than a thousand pages.
    pub async fn list_tools(&self) -> Result<Vec<ToolInfo>, CallError> {
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let params = cursor.map_or_else(|| json!({}), |cursor: String| json!({ "cursor": cursor }));
            let page: ToolsPage = self.peer.request("tools/list", &self.named(params)).await?;
            tools.extend(page.tools);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(tools);
            }
        }
        Err(CallError::Peer(ErrorObject::new(error_code::INTERNAL_ERROR, "the list of tools has no end")))
    }

    /// Calls a tool. `&()` is no arguments.
    ///
    /// Drop the call, or use its handle, and the server is told to stop. What the server asks meanwhile, the
    /// [builder](Self::builder)'s routes answer, in every revision.
    pub fn call_tool(&self, name: &str, arguments: &(impl Serialize + ?Sized)) -> RoundTrips<ToolResult> {
        #[derive(Serialize)]
        struct CallToolParams<'a, T: ?Sized> {
            name: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            arguments: Option<&'a T>,
            #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
            meta: Option<Value>,
        }
        let meta = self.agreed.get().filter(|revision| revision.is_modern()).map(|revision| self.meta(*revision));
        let has_none =
            size_of_val(arguments) == 0 && serde_json::to_value(arguments).is_ok_and(|value| value.is_null());
        let arguments = (!has_none).then_some(arguments);
        let may_be_asked = meta.is_some();
        let params = serde_json::to_vec(&CallToolParams { name, arguments, meta });
        RoundTrips::new(self.clone(), "tools/call".into(), params, may_be_asked)
    }

    /// Makes a request that a server may answer with a result that asks for input: `resources/read`, `prompts/get`.
    ///
    /// `params` are an object; they get what every request has in the revision that was agreed on.
    pub fn request<R>(&self, method: impl Into<Cow<'static, str>>, params: Value) -> RoundTrips<R> {
        let may_be_asked = self.agreed.get().is_some_and(|revision| revision.is_modern());
        RoundTrips::new(self.clone(), method.into(), serde_json::to_vec(&self.named(params)), may_be_asked)
    }

    /// A connection to our own handlers, where they answer as they answer a server of 2025-11-25.
    pub(super) fn asking(&self) -> Peer {
        self.asking.get_or_init(|| Builder::ask_handlers_of(&self.peer, Revision::LATEST_LEGACY.dialect())).clone()
    }

    /// The connection beneath, for everything else.
    #[must_use]
    pub const fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Params of a request of your own, given what every request has in the revision that was agreed on: since
    /// 2026-07-28 that, and who asks with which capabilities, in `_meta`.
    #[must_use]
    pub fn named(&self, mut params: Value) -> Value {
        if let Some(revision) = self.agreed.get().filter(|revision| revision.is_modern()) {
            params["_meta"] = self.meta(*revision);
        }
        params
    }

    fn meta(&self, revision: Revision) -> Value {
        json!({
            VERSION_IN_META: revision.date(),
            CLIENT_INFO: *self.info,
            CLIENT_CAPABILITIES: self.capabilities,
        })
    }
}
