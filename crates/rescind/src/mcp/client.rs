//! A client: opening a session, listing tools, calling them.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
    time::Duration,
};

use rescind_proto::{
    dialect::{
        DISCOVER,
        mcp::{VERSION_IN_META, newest_stateless},
    },
    error_code,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    CLIENT_CAPABILITIES, CLIENT_INFO, ClientBuilder, Implementation, Revision, RoundTrips, SERVER_INFO, ToolResult,
};
use crate::peer::{Builder, CallError, ConnectError, ErrorObject, Peer, Transport};

/// How long a server may take to answer `server/discover`; some older ones never answer an unknown method.
const PROBE: Duration = Duration::from_secs(10);

/// The most pages of tools that are asked for.
const MAX_PAGES: usize = 1000;

/// A client of one server. Clones share the session.
///
/// [`connect`](Self::connect) gives one that is ready. Its requests are ordinary [calls](crate::peer::Call) of its
/// [`Peer`]: dropping one cancels it.
///
/// # Dropping it
///
/// The last clone, with all calls of the session, ends the connection in order, in the background; a child process
/// that was the server is ended with it. [`close`](Self::close) waits for that.
#[derive(Clone, Debug)]
pub struct Client {
    peer: Peer,
    info: Arc<Implementation>,
    capabilities: Map<String, Value>,
    /// The server's description of itself, once the session is open.
    server: Arc<OnceLock<ServerInfo>>,
    /// A connection to our own handlers, for questions that a server asks in an answer.
    asking: Arc<OnceLock<Peer>>,
}

/// A server's description of itself: untrusted.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// The revision of the session.
    pub revision: Revision,
    /// Its name; empty if it gave none.
    pub name: String,
    /// Its version; empty if it gave none.
    pub version: String,
    /// Its capabilities.
    pub capabilities: Value,
    /// Instructions for the model.
    pub instructions: Option<String>,
}

/// A tool, as its server describes it: untrusted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolInfo {
    /// Its name.
    pub name: String,
    /// Its description.
    #[serde(default)]
    pub description: String,
    /// The JSON schema of its arguments.
    #[serde(default)]
    pub input_schema: Value,
    /// Everything else.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl ToolInfo {
    /// Its title for people, if it has one.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        let of_annotations = || self.other.get("annotations")?.get("title");
        self.other.get("title").or_else(of_annotations)?.as_str()
    }

    /// The JSON schema of its structured results, if it declares one.
    #[must_use]
    pub fn output_schema(&self) -> Option<&Value> {
        self.other.get("outputSchema")
    }

    /// The hints on its effects; hints that cannot be read count as absent.
    #[must_use]
    pub fn annotations(&self) -> ToolAnnotations {
        let annotations = self.other.get("annotations");
        annotations.and_then(|annotations| ToolAnnotations::deserialize(annotations).ok()).unwrap_or_default()
    }
}

/// A server's hints on the effects of a tool: untrusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolAnnotations {
    /// A title for people.
    pub title: Option<String>,
    /// Whether it changes nothing. Assume `false` where this is absent.
    pub read_only_hint: Option<bool>,
    /// Whether what it changes may be lost. Assume `true` where this is absent.
    pub destructive_hint: Option<bool>,
    /// Whether a second call with the same arguments changes nothing more. Assume `false` where this is absent.
    pub idempotent_hint: Option<bool>,
    /// Whether it reaches an open world, such as the web. Assume `true` where this is absent.
    pub open_world_hint: Option<bool>,
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
    /// Connects to the server behind `transport` under this name and version, opens the session in the newest way that
    /// the server knows, and returns the client, ready for calls.
    ///
    /// The connection then runs in a task of its own, until the last clone of the client is dropped. A client that
    /// answers the server's questions, or declares capabilities, is made with [`builder`](Self::builder).
    ///
    #[cfg_attr(all(feature = "child", unix), doc = "```no_run")]
    #[cfg_attr(not(all(feature = "child", unix)), doc = "```ignore")]
    /// # use rescind::{mcp, peer::transport};
    /// # use std::process::Command;
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let (transport, _child) = transport::child(Command::new("some-mcp-server"))?;
    /// let client = mcp::Client::connect(transport, "my-client", "1.0.0").await?;
    /// let result = client.call_tool("search", &serde_json::json!({ "query": "needle" })).await?;
    /// println!("{}", result.text());
    /// client.close().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The link broke, the handshake failed, or the server speaks no revision that this client speaks.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future during the handshake closes the connection at once and leaves no task behind. A server that
    /// is a [child process](crate::peer::transport::child()) is then ended as MCP-S02 has it: its stdin is closed, 1.5 s
    /// later it gets SIGTERM, 1 s later SIGKILL. An error closes the connection in the same way.
    pub async fn connect(transport: impl Into<Transport>, name: &str, version: &str) -> Result<Self, ConnectError> {
        Self::builder(name, version).connect(transport).await
    }

    /// Describes a client of this name and version: its handlers and capabilities.
    pub fn builder(name: &str, version: &str) -> ClientBuilder {
        ClientBuilder::new(name, version)
    }

    /// A connection that answers what every client answers: `ping`. For programs that run the [driver] themselves: add
    /// handlers, [connect](Builder::connect) it, and [`open`](Self::open) a [client](Self::new) on it.
    ///
    /// [driver]: crate::peer::Driver
    pub fn peer_builder() -> Builder {
        Peer::builder(None).on_request("ping", super::ping())
    }

    /// A client of the server at the other side of `peer`, under this name and version.
    #[must_use]
    pub fn new(peer: Peer, name: &str, version: &str) -> Self {
        Self::declaring(peer, name, version, Map::new())
    }

    pub(super) fn declaring(peer: Peer, name: &str, version: &str, capabilities: Map<String, Value>) -> Self {
        let info = Arc::new(Implementation { name: name.to_owned(), version: version.to_owned() });
        Self { peer, info, capabilities, server: Arc::default(), asking: Arc::default() }
    }

    /// Declares a capability, whose handlers the peer builder has.
    #[must_use]
    pub fn capability(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.capabilities.insert(name.to_owned(), value.into());
        self
    }

    /// Opens the session in the newest way that the server knows: with [`discover`](Self::discover), and if that fails or
    /// is not answered within 10 s, with [`initialize`](Self::initialize).
    ///
    /// # Errors
    ///
    /// Both failed, and this is the error of `initialize`. Or the connection ended or the call was cancelled during
    /// `discover`.
    pub async fn open(&self) -> Result<ServerInfo, ConnectError> {
        match self.ask(Some(PROBE)).await {
            Err(ConnectError::Call(error @ (CallError::Closed | CallError::Cancelled(_)))) => Err(error.into()),
            Ok(info) => Ok(info),
            Err(_) => self.initialize().await,
        }
    }

    /// Opens the session with the handshake of the revisions up to 2025-11-25. It is never cancelled on the wire
    /// (MCP-C03).
    ///
    /// # Errors
    ///
    /// The call failed, or the server speaks no revision that this client speaks.
    pub async fn initialize(&self) -> Result<ServerInfo, ConnectError> {
        let params = json!({
            "protocolVersion": Revision::LATEST_LEGACY.date(),
            "capabilities": self.capabilities,
            "clientInfo": *self.info,
        });
        let greeting: InitializeResult = self.peer.request("initialize", &params).await?;
        let InitializeResult { protocol_version, capabilities, server_info, instructions } = greeting;
        let revision = Revision::by_date(&protocol_version).filter(|revision| !revision.is_stateless());
        let revision = revision.ok_or(ConnectError::Version(protocol_version))?;
        let Implementation { name, version } = server_info;
        let server = self.agree(ServerInfo { revision, name, version, capabilities, instructions });
        self.peer.notify_now("notifications/initialized", &())?;
        Ok(server)
    }

    /// Opens the session with the handshake of 2026-07-28 and later, `server/discover`; from then on every request names the
    /// newest of these revisions that both sides speak.
    ///
    /// # Errors
    ///
    /// The call failed (an older server answers -32601), or the server speaks none of these revisions.
    pub async fn discover(&self) -> Result<ServerInfo, ConnectError> {
        self.ask(None).await
    }

    async fn ask(&self, limit: Option<Duration>) -> Result<ServerInfo, ConnectError> {
        let mut asked = Revision::LATEST_STATELESS;
        loop {
            let params = json!({ "_meta": self.meta(asked) });
            let call = self.peer.request::<DiscoverResult>(DISCOVER, &params);
            let call = if let Some(limit) = limit { call.response_timeout(limit) } else { call };
            match call.await {
                Ok(discovered) => return self.discovered(discovered),
                Err(CallError::Peer(error)) if let Some(older) = supported(&error).filter(|older| *older < asked) => {
                    asked = older;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn discovered(&self, discovered: DiscoverResult) -> Result<ServerInfo, ConnectError> {
        let DiscoverResult { supported_versions, capabilities, instructions, meta } = discovered;
        let Some(revision) = newest_stateless(&supported_versions).map(Revision::of) else {
            return Err(ConnectError::Version(supported_versions.join(", ")));
        };
        let Implementation { name, version } = serde_json::from_value(meta[SERVER_INFO].clone()).unwrap_or_default();
        Ok(self.agree(ServerInfo { revision, name, version, capabilities, instructions }))
    }

    /// Keeps the first description: the revision of a session does not change.
    fn agree(&self, said: ServerInfo) -> ServerInfo {
        let revision = self.server.get_or_init(|| said.clone()).revision;
        ServerInfo { revision, ..said }
    }

    /// The revision of the session, if that is one in which every request names it.
    fn modern(&self) -> Option<Revision> {
        self.server.get().map(|server| server.revision).filter(|revision| revision.is_stateless())
    }

    /// Lists all tools of the server, page by page.
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

    /// Calls a tool. `&()` means no arguments.
    ///
    /// Dropping the call, or its stop handle, stops the tool. Questions that the server asks meanwhile are answered by the
    /// handlers of the [builder](Self::builder), in every revision.
    pub fn call_tool(&self, name: &str, arguments: &(impl Serialize + ?Sized)) -> RoundTrips<ToolResult> {
        #[derive(Serialize)]
        struct CallToolParams<'a, T: ?Sized> {
            name: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            arguments: Option<&'a T>,
            #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
            meta: Option<Value>,
        }
        let meta = self.modern().map(|revision| self.meta(revision));
        let has_none =
            size_of_val(arguments) == 0 && serde_json::to_value(arguments).is_ok_and(|value| value.is_null());
        let arguments = (!has_none).then_some(arguments);
        let may_be_asked = meta.is_some();
        let params = serde_json::to_vec(&CallToolParams { name, arguments, meta });
        RoundTrips::new(self.clone(), "tools/call".into(), params, may_be_asked)
    }

    /// Makes a request that a server may answer with a result that asks for input: `resources/read`, `prompts/get`.
    ///
    /// `params` are an object; the members that every request has in the session's revision are added.
    pub fn request<R>(&self, method: impl Into<Cow<'static, str>>, params: Value) -> RoundTrips<R> {
        let may_be_asked = self.modern().is_some();
        RoundTrips::new(self.clone(), method.into(), serde_json::to_vec(&self.named(params)), may_be_asked)
    }

    /// Returns a connection to our own handlers, where they answer as they answer a server of 2025-11-25.
    pub(super) fn asking(&self) -> Peer {
        self.asking.get_or_init(|| Builder::ask_handlers_of(&self.peer, Revision::LATEST_LEGACY.dialect())).clone()
    }

    /// The server's description of itself; `None` before the session is open.
    #[must_use]
    pub fn server(&self) -> Option<&ServerInfo> {
        self.server.get()
    }

    /// Ends the connection in order and waits until everything of it is settled: calls in flight are cancelled, and a
    /// server that is a child process is ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future only stops the waiting.
    pub async fn close(self) {
        self.peer.shutdown();
        self.peer.closed().await;
    }

    /// The connection beneath, for everything else.
    #[must_use]
    pub const fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Adds the members that every request has in the session's revision to the params of a request of your own: since
    /// 2026-07-28 the revision, the client and its capabilities, in `_meta`.
    #[must_use]
    pub fn named(&self, mut params: Value) -> Value {
        if let Some(revision) = self.modern() {
            params["_meta"] = self.meta(revision);
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

/// The newest revision without sessions that a server speaks, as it says when it refuses one that it does not.
fn supported(error: &ErrorObject) -> Option<Revision> {
    #[derive(Deserialize)]
    struct Unsupported {
        supported: Vec<String>,
    }
    let data = error.data.as_ref().filter(|_| error.code == error_code::UNSUPPORTED_PROTOCOL_VERSION)?;
    let Unsupported { supported } = serde_json::from_str(data.get()).ok()?;
    newest_stateless(&supported).map(Revision::of)
}
