//! A server: the handshakes of every revision, and tools.

use std::{fmt, future::ready, io, sync::Arc, time::Duration};

use rescind_proto::{
    dialect::{DISCOVER, Dialect, mcp::VERSION_IN_META},
    error_code, json,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    ABANDONED, Implementation, Revision, SERVER_INFO, Tool, rounds,
    suspended::{SuspendLimits, Suspended},
};
use crate::peer::{
    Builder, Context, Driver, ErrorObject, Params, Peer, Transport,
    extract::{OnRequest, Scope},
    handler::{Branches, Guard, Routes},
    route,
};

/// A server of tools. It speaks all five revisions, or those that [`revisions`](Self::revisions) sets; the client chooses,
/// request by request (D2).
///
/// It answers `initialize`, `server/discover`, `ping`, `tools/list` and `tools/call`. A call is stopped like every
/// request: its token fires, and everything that it awaits in the name of the request is cancelled; after its grace it is
/// dropped; a client that cancelled gets no answer (MCP-C06).
#[must_use = "nothing is served until `serve` or `accept`"]
pub struct Server {
    builder: Builder,
    face: Face,
    tools: Vec<Tool>,
    guards: Vec<Guard>,
    suspended: SuspendLimits,
}

/// The server's description of itself.
struct Face {
    info: Implementation,
    instructions: Option<Box<str>>,
    capabilities: Map<String, Value>,
    /// Capabilities for clients of one revision.
    capabilities_in: Vec<(Revision, String, Value)>,
    /// The revisions that it speaks, the newest first.
    revisions: Vec<Revision>,
}

impl Server {
    /// Makes a server of this name and version, without tools.
    pub fn new(name: &str, version: &str) -> Self {
        let info = Implementation { name: name.to_owned(), version: version.to_owned() };
        let face = Face {
            info,
            instructions: None,
            capabilities: Map::new(),
            capabilities_in: Vec::new(),
            revisions: Revision::ALL.into(),
        };
        Self {
            builder: Peer::builder(None),
            face,
            tools: Vec::new(),
            guards: Vec::new(),
            suspended: SuspendLimits::default(),
        }
    }

    /// Sets the instructions for the model: how the server is to be used.
    pub fn instructions(mut self, text: &str) -> Self {
        self.face.instructions = Some(text.into());
        self
    }

    /// Limits the server to these revisions; it refuses the others. Without, it speaks all five.
    ///
    /// For a server that needs something that a revision lacks: one that sends requests to its client outside of tools
    /// cannot speak 2026-07-28 (MCP-M03).
    pub fn revisions(mut self, speaks: &[Revision]) -> Self {
        self.face.revisions = Revision::ALL.into_iter().filter(|revision| speaks.contains(revision)).collect();
        self
    }

    /// Limits how many calls may wait between two rounds for a client that was asked for input (2026-07-28), and how long
    /// each may wait. Default 64, and 10 minutes.
    ///
    /// A client need not call again, and most cannot report that they will not. A call whose time is up is stopped as by a
    /// timeout. A question that would exceed the limit fails with -31004.
    ///
    /// Where several clients share the connection, as over HTTP, none of them has more than half of the places, unless they
    /// are not told apart. Then it is not the new question that fails: the client that has most calls waiting gives up its
    /// oldest, whose handler is stopped ([`CauseCode::Policy`](crate::peer::CauseCode::Policy)).
    pub const fn suspended(mut self, most: usize, time: Duration) -> Self {
        self.suspended = SuspendLimits { most, time };
        self
    }

    /// Declares a capability, whose handlers are added by [`with`](Self::with).
    pub fn capability(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.face.capabilities.insert(name.to_owned(), value.into());
        self
    }

    /// Declares a capability for clients of that revision alone. Two objects of the same name are merged.
    pub fn capability_in(mut self, revision: Revision, name: &str, value: impl Into<Value>) -> Self {
        self.face.capabilities_in.push((revision, name.to_owned(), value.into()));
        self
    }

    /// Calls `guard` before the handler of each request; its error is the answer.
    pub fn guard(mut self, guard: impl Fn(&OnRequest) -> Result<(), ErrorObject> + Send + Sync + 'static) -> Self {
        self.guards.push(Arc::new(guard));
        self
    }

    /// Adds a tool whose schema is that of its handler's arguments.
    ///
    /// Its calls run in tasks of their own. A call that computes must await something of its
    /// [`Context`](crate::peer::Context) between two pieces of work, and code that never awaits belongs in
    /// [`Context::spawn_blocking`](crate::peer::Context::spawn_blocking): see [`ToolHandler`](super::ToolHandler).
    #[cfg(feature = "schemars")]
    pub fn tool<Args, H>(self, name: &str, description: &str, handler: H) -> Self
    where
        H: super::ToolHandler<Args>,
        H::Arguments: schemars::JsonSchema,
    {
        self.with_tool(Tool::new(name, description, handler))
    }

    /// Adds a tool with settings of its own. Of two tools of the same name the last counts.
    pub fn with_tool(mut self, tool: Tool) -> Self {
        self.tools.retain(|known| known.name != tool.name);
        self.tools.push(tool);
        self
    }

    /// Changes everything else of the connection: observers, filters, limits, routes.
    pub fn with(mut self, change: impl FnOnce(Builder) -> Builder) -> Self {
        self.builder = change(self.builder);
        self
    }

    /// Serves the client on the other side of `transport`; see [`Builder::serve`].
    ///
    /// # Errors
    ///
    /// The link broke.
    pub async fn serve(self, transport: impl Into<Transport>) -> io::Result<()> {
        self.into_builder().serve(transport).await
    }

    /// Serves the client, and returns a handle of the connection; see [`Builder::accept`].
    pub fn accept(self, transport: impl Into<Transport>) -> (Peer, Driver) {
        self.into_builder().accept(transport)
    }

    fn into_builder(self) -> Builder {
        let Self { builder, mut face, tools, guards, suspended } = self;
        let suspended = Suspended::new(suspended);
        let declared = |revision| tools.iter().map(|tool| tool.declaration(revision)).collect::<Vec<_>>();
        let declarations: Arc<[_]> = Revision::ALL.map(|revision| (revision, declared(revision))).into();
        let asking = |tool: Tool| {
            let route = rounds::asking(tool.route, &format!("tools/call {}", tool.name), &suspended);
            (tool.name, route)
        };
        let routes: Routes = tools.into_iter().map(asking).collect();
        if !routes.is_empty() {
            face.capabilities.entry("tools").or_insert_with(|| json!({}));
        }
        let greeter = Arc::new(face);
        let (herald, speaker) = (Arc::clone(&greeter), Arc::clone(&greeter));
        let mut builder = builder
            .on_request("ping", super::ping())
            .on_request(
                "initialize",
                route(move |Params(hello): Params<InitializeParams>| ready(greeter.greeting(&hello))).never_blocks(),
            )
            .on_notification("notifications/initialized", || ())
            .on_request(
                DISCOVER,
                route(move |cx: Context| ready(Ok::<_, ErrorObject>(herald.introduction(Revision::of(cx.dialect())))))
                    .never_blocks(),
            )
            .on_request(
                "tools/list",
                route(move |Params(page): Params<Option<ListToolsParams>>, cx: Context| {
                    let revision = Revision::of(cx.dialect());
                    let tools = declarations.iter().find(|(of, _)| *of == revision).map_or(&[][..], |(_, tools)| tools);
                    ready(list(tools, page, revision))
                })
                .never_blocks(),
            )
            .on_request("tools/call", |Params(call): Params<CallToolParams>| async move {
                Err::<(), _>(ErrorObject::invalid_params(format!("unknown tool: {}", call.name)))
            });
        for method in ["resources/read", "prompts/get"] {
            if let Some(route) = builder.service.requests.remove(method) {
                builder.service.requests.insert(method.into(), rounds::asking(route, method, &suspended));
            }
        }
        builder = builder.on_notification(ABANDONED, move |Params(abandoned): Params<Abandoned>| {
            suspended.abandon(&abandoned.request_state);
        });
        builder.service.branches.insert("tools/call".into(), Branches { member: "name", routes });
        let speaks: Guard = Arc::new(move |request| speaker.speaks(request));
        for guard in guards.iter().chain([&speaks]) {
            builder.service.guard(guard);
        }
        builder
    }
}

impl Face {
    /// Answers `initialize`.
    fn greeting(&self, hello: &InitializeParams) -> Result<Value, ErrorObject> {
        let asked = &hello.protocol_version;
        let revision = Revision::agreed(asked, &self.revisions).ok_or_else(|| self.unsupported(asked))?;
        let mut greeting = json!({
            "protocolVersion": revision.date(),
            "capabilities": self.capabilities(revision),
            "serverInfo": self.info,
        });
        self.add_instructions(&mut greeting);
        Ok(greeting)
    }

    /// Answers `server/discover`. The answer may not be cached: the next process may have other tools.
    fn introduction(&self, named: Revision) -> Value {
        let revision = if named.is_stateless() { named } else { Revision::LATEST_STATELESS };
        let mut introduction = json!({
            "resultType": "complete",
            "supportedVersions": self.dates(),
            "capabilities": self.capabilities(revision),
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": { SERVER_INFO: self.info },
        });
        self.add_instructions(&mut introduction);
        introduction
    }

    /// The capabilities for clients of that revision.
    fn capabilities(&self, revision: Revision) -> Map<String, Value> {
        let mut capabilities = self.capabilities.clone();
        for (_, name, value) in self.capabilities_in.iter().filter(|(of, ..)| *of == revision) {
            match (capabilities.get_mut(name), value) {
                (Some(Value::Object(known)), Value::Object(more)) => known.extend(more.clone()),
                (Some(_) | None, value) => drop(capabilities.insert(name.clone(), value.clone())),
            }
        }
        capabilities
    }

    fn dates(&self) -> Vec<&'static str> {
        self.revisions.iter().map(|revision| revision.date()).collect()
    }

    /// Refuses a request that names a revision which is not spoken here, or which has no such method.
    fn speaks(&self, request: &OnRequest) -> Result<(), ErrorObject> {
        let named = request.params().and_then(|params| json::lookup(params, &["_meta", VERSION_IN_META]));
        let Some(named) = named else { return Ok(()) };
        let asked = json::text(named).unwrap_or_default();
        let spoken = Revision::by_date(&asked).filter(|revision| self.revisions.contains(revision));
        let revision = spoken.ok_or_else(|| self.unsupported(&asked))?;
        let (dialect, method) = (revision.dialect(), Some(request.method()));
        let is_of = |dialect: &Dialect| method == dialect.handshake || method == dialect.ping;
        let is_gone = is_of(Revision::LATEST_LEGACY.dialect()) && !is_of(dialect);
        if is_gone { Err(ErrorObject::method_not_found(request.method())) } else { Ok(()) }
    }

    fn unsupported(&self, asked: &str) -> ErrorObject {
        let data = json!({ "supported": self.dates(), "requested": asked });
        ErrorObject::new(error_code::UNSUPPORTED_PROTOCOL_VERSION, "unsupported protocol version").with_data(&data)
    }

    fn add_instructions(&self, answer: &mut Value) {
        if let Some(instructions) = &self.instructions {
            answer["instructions"] = json!(instructions);
        }
    }
}

/// The params of the notification that a client will not call again.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Abandoned {
    request_state: String,
}

/// The params of `initialize`.
#[derive(Deserialize)]
struct InitializeParams {
    #[serde(rename = "protocolVersion")]
    protocol_version: String,
}

/// The params of `tools/list`.
#[derive(Deserialize)]
struct ListToolsParams {
    cursor: Option<Value>,
}

/// The params of `tools/call`, as far as an unknown tool needs them.
#[derive(Deserialize)]
struct CallToolParams {
    name: String,
}

fn list(declarations: &[Value], page: Option<ListToolsParams>, revision: Revision) -> Result<Value, ErrorObject> {
    if page.is_some_and(|page| page.cursor.is_some()) {
        return Err(ErrorObject::invalid_params("no such cursor: there is one page"));
    }
    Ok(if revision.is_stateless() {
        json!({ "resultType": "complete", "tools": declarations, "ttlMs": 0, "cacheScope": "private" })
    } else {
        json!({ "tools": declarations })
    })
}

impl From<Server> for Builder {
    fn from(server: Server) -> Self {
        server.into_builder()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("info", &self.face.info).field("tools", &self.tools).finish_non_exhaustive()
    }
}
