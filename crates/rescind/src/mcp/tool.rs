//! Tools: async functions of typed arguments.

use std::{future::Future, sync::Arc};

use rescind_proto::json;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{Preparation, Revision, ToolOutput, ToolResult};
use crate::peer::{
    Erased, ErrorObject, Route,
    extract::{Extract, OnRequest, Scope},
    handler::{BoxedHandler, HandlerFuture, HandlerOutput},
    route,
};

/// A tool: its name, its declaration for clients, its function, and how its calls are stopped. Clones share the function.
#[derive(Clone, Debug)]
#[must_use = "a tool is nothing until a server has it"]
pub struct Tool {
    pub(super) name: Box<str>,
    pub(super) declaration: Map<String, Value>,
    /// Members of the declaration for clients of one revision alone.
    pub(super) declared_in: Vec<(Revision, String, Value)>,
    pub(super) route: Route,
}

impl Tool {
    /// Makes a tool whose schema is that of its handler's arguments. If the handler returns
    /// [`Structured`](super::Structured), its result has a schema too.
    #[cfg(feature = "schemars")]
    pub fn new<Args, H>(name: &str, description: &str, handler: H) -> Self
    where
        H: ToolHandler<Args>,
        H::Arguments: schemars::JsonSchema,
    {
        Self::with_schema(name, description, super::schema::of::<H::Arguments>(), handler)
    }

    /// Makes a tool with this JSON schema of its arguments.
    pub fn with_schema<Args, H: ToolHandler<Args>>(name: &str, description: &str, schema: Value, handler: H) -> Self {
        let mut schema = match schema {
            Value::Object(schema) => schema,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
        };
        // The protocol requires the schema of an object.
        schema.entry("type").or_insert_with(|| "object".into());
        let mut declaration = Map::new();
        declaration.insert("name".to_owned(), name.into());
        declaration.insert("description".to_owned(), description.into());
        declaration.insert("inputSchema".to_owned(), schema.into());
        let route = route(ErasedTool(handler.erased()));
        let mut declared_in = Vec::new();
        if let Some(schema) = H::Output::schema() {
            let has_a_place = |revision: &Revision| match schema["type"] == "object" {
                true => *revision >= Revision::V2025_06_18,
                false => revision.is_stateless(),
            };
            let revisions = Revision::ALL.into_iter().filter(has_a_place);
            declared_in.extend(revisions.map(|revision| (revision, "outputSchema".to_owned(), schema.clone())));
        }
        Self { name: name.into(), declaration, declared_in, route }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Replaces the function of the tool; its name, its declaration and how its calls are stopped stay.
    pub fn handled_by<Args>(mut self, handler: impl ToolHandler<Args>) -> Self {
        self.route.handler = handler.erased().0;
        self
    }

    /// Calls `take` before each call of the tool. If it returns a future, that answers the call, with any JSON; else the
    /// tool does. Its error is the call's answer.
    pub fn intercepted<F, Fut, T>(mut self, take: F) -> Self
    where
        F: Fn(&OnRequest) -> Result<Option<Fut>, ErrorObject> + Send + Sync + 'static,
        Fut: Future<Output = Result<T, ErrorObject>> + Send + 'static,
        T: Serialize + 'static,
    {
        self.route = self.route.intercepted(take);
        self
    }

    /// Prepares each call first: the tool, and what [intercepts](Self::intercepted) its calls already, are called with the
    /// arguments that the preparation has made.
    pub fn prepared_by(mut self, preparation: Preparation) -> Self {
        self.route.handler = preparation.before(self.route.handler);
        self
    }

    /// Changes how its calls are stopped: their grace, a shield, a time limit (D22).
    pub fn route(mut self, change: impl FnOnce(Route) -> Route) -> Self {
        self.route = change(self.route);
        self
    }

    /// Sets a title for people.
    pub fn title(mut self, title: &str) -> Self {
        self.declaration.insert("title".to_owned(), title.into());
        self.hint("title", title)
    }

    /// Says whether the tool changes nothing. Without this hint clients assume `false`.
    ///
    /// This and the other hints are for clients, which may ask a person before a call. Nothing enforces them.
    pub fn read_only_hint(self, is_read_only: bool) -> Self {
        self.hint("readOnlyHint", is_read_only)
    }

    /// Says whether the tool may destroy something (`true`) or only adds (`false`). Without this hint clients assume
    /// `true`. It has no meaning for a read-only tool.
    pub fn destructive_hint(self, is_destructive: bool) -> Self {
        self.hint("destructiveHint", is_destructive)
    }

    /// Says whether a second call with the same arguments changes nothing more. Without this hint clients assume `false`.
    /// It has no meaning for a read-only tool.
    pub fn idempotent_hint(self, is_idempotent: bool) -> Self {
        self.hint("idempotentHint", is_idempotent)
    }

    /// Says whether the tool reaches an open world, such as the web (`true`), or only a closed one, such as its own store
    /// (`false`). Without this hint clients assume `true`.
    pub fn open_world_hint(self, is_open: bool) -> Self {
        self.hint("openWorldHint", is_open)
    }

    /// Adds a member to the annotations.
    fn hint(mut self, name: &str, value: impl Into<Value>) -> Self {
        let annotations = self.declaration.entry("annotations").or_insert_with(|| Map::new().into());
        if let Value::Object(annotations) = annotations {
            annotations.insert(name.to_owned(), value.into());
        }
        self
    }

    /// Adds a member to the declaration, such as `icons` or `_meta`.
    pub fn declare(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.declaration.insert(member.to_owned(), value.into());
        self
    }

    /// Adds a member to the declaration for clients of that revision alone.
    pub fn declare_in(mut self, revision: Revision, member: &str, value: impl Into<Value>) -> Self {
        self.declared_in.push((revision, member.to_owned(), value.into()));
        self
    }

    /// The declaration for clients of that revision.
    pub(super) fn declaration(&self, revision: Revision) -> Value {
        let mut declaration = self.declaration.clone();
        let added = self.declared_in.iter().filter(|(of, ..)| *of == revision);
        declaration.extend(added.map(|(_, member, value)| (member.clone(), value.clone())));
        declaration.into()
    }
}

/// The arguments of a tool that takes none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct NoArguments {}

/// An async function that is a tool: `|arguments: T, cx: Context, token: CancellationToken| async move { … }`.
///
/// Its first parameter is the arguments, read as JSON; up to six [extractors](Extract) follow in any order. It returns a
/// `Result` of a [`ToolOutput`] (text, a [`ToolResult`], or [`Structured`](super::Structured)) and any error that becomes
/// an [`ErrorObject`]; with [`AnyError`](crate::peer::AnyError), `?` takes every error that displays, and the model reads
/// its text. Arguments that cannot be read never reach the handler: they are refused with an explanation, to the model
/// or to the client, as the revision has it.
///
/// # Tools that compute
///
/// Each call runs in a task of its own, so that other calls, and the cancel of this one, are read meanwhile (D50). A tool
/// that computes can be stopped at every await of its [`Context`](crate::peer::Context):
/// [`progress`](crate::peer::Context::progress), [`notify`](crate::peer::Context::notify),
/// [`checkpoint`](crate::peer::Context::checkpoint). Between two of them it occupies its thread, and on a runtime with one
/// thread the whole connection waits. Code that computes for long without an await, or blocks, belongs in
/// [`spawn_blocking`](crate::peer::Context::spawn_blocking).
///
/// ```
/// # use rescind::{mcp::NoArguments, peer::{Context, ErrorObject}};
/// # fn chunk(_: u32) {}
/// let tool = |NoArguments {}, cx: Context| async move {
///     for done in 0..20 {
///         chunk(done);
///         cx.progress(f64::from(done + 1), Some(20.0), None).await;
///         cx.checkpoint().await?;
///     }
///     Ok::<_, ErrorObject>("all of it")
/// };
/// # fn is_tool<A>(_: impl rescind::mcp::ToolHandler<A>) {}
/// # is_tool(tool);
/// ```
#[diagnostic::on_unimplemented(
    message = "this is not a tool",
    label = "not a tool",
    note = "1. it is async: `async fn`, or a closure `|…| async move {{ … }}`",
    note = "2. its first parameter is its arguments, which are `serde::Deserialize` (`NoArguments` for none); the others are \
            `Context`, `CancellationToken` or `Peer`",
    note = "3. it returns `Result<T, E>`: `T` is text, `()`, `ToolResult` or `Structured<…>`; `E` is `ErrorObject`, \
            `CallError` or `AnyError`",
    note = "4. its future is `Send`: no `Rc`, `RefCell` borrow or `MutexGuard` is held across an `.await`"
)]
pub trait ToolHandler<Args>: Send + Sync + 'static {
    /// The type of its arguments.
    type Arguments: DeserializeOwned;
    /// The type of its result.
    type Output: ToolOutput;

    #[doc(hidden)]
    fn erased(self) -> Erased;
}

struct ErasedTool(Erased);

impl crate::peer::RequestHandler<Self> for ErasedTool {
    /// Of any type, which the handler has written.
    type Output = Value;

    fn erased(self) -> Erased {
        self.0
    }
}

macro_rules! tools {
    ($($arg:ident)*) => {
        impl<F, Fut, T, R, E, $($arg),*> ToolHandler<(T, $($arg,)*)> for F
        where
            F: Fn(T, $($arg),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = Result<R, E>> + Send + 'static,
            T: DeserializeOwned,
            R: ToolOutput,
            E: Into<ErrorObject> + Send + 'static,
            $($arg: Extract<OnRequest>,)*
        {
            type Arguments = T;
            type Output = R;

            fn erased(self) -> Erased {
                Erased(Arc::new(move |scope| {
                    let revision = Revision::of(scope.context().dialect());
                    match arguments(scope) {
                        Ok(arguments) => {
                            let call = self(arguments, $($arg::extract(scope)?),*);
                            Ok(HandlerFuture::boxed(call, move |result| outcome(result, revision)))
                        }
                        Err(error) => refuse(&error, revision),
                    }
                }))
            }
        }
    };
}

tools!();
tools!(A);
tools!(A B);
tools!(A B C);
tools!(A B C D);
tools!(A B C D E1);
tools!(A B C D E1 G);

pub(super) fn arguments<T: DeserializeOwned>(scope: &OnRequest) -> Result<T, serde_json::Error> {
    let given = scope.params().and_then(|params| json::member(params, "arguments")).unwrap_or(b"{}");
    if given.first() != Some(&b'{') {
        return Err(serde::de::Error::custom("they are not an object"));
    }
    serde_json::from_slice(given)
}

/// Refuses arguments: since 2025-11-25 with a result for the model, which can correct itself; before, with an error.
pub(super) fn refuse(error: &serde_json::Error, revision: Revision) -> Result<BoxedHandler, ErrorObject> {
    let message = format!("invalid arguments: {error}");
    if revision < Revision::V2025_11_25 {
        return Err(ErrorObject::invalid_params(message));
    }
    let refused = outcome(Ok::<_, ErrorObject>(ToolResult::failed(message)), revision);
    Ok(Box::pin(std::future::ready(refused)))
}

pub(super) fn outcome<R: ToolOutput, E: Into<ErrorObject>>(result: Result<R, E>, revision: Revision) -> HandlerOutput {
    let result = result.map_err(Into::into).and_then(|result| result.into_result(revision));
    let mut result = match result {
        Ok(result) => result,
        Err(error) if error.is_foreign => ToolResult::failed(error.message),
        Err(error) => return HandlerOutput::Error(error),
    };
    if revision.is_stateless() {
        result.result_type.get_or_insert_with(|| "complete".into());
    }
    match serde_json::to_vec(&result) {
        Ok(json) => HandlerOutput::Value(json),
        Err(error) => HandlerOutput::Error(error.into()),
    }
}

/// What the compiler refuses, each for one of the reasons that [`ToolHandler`] gives, and the last what it takes.
///
/// ```compile_fail,E0277
/// # use rescind::{mcp::{NoArguments, Server}, peer::ErrorObject};
/// Server::new("x", "1").tool("not_async", "", |_: NoArguments| Ok::<_, ErrorObject>("text"));
/// ```
///
/// ```compile_fail,E0277
/// # use rescind::{mcp::Server, peer::{Context, ErrorObject}};
/// Server::new("x", "1").tool("no_arguments", "", |cx: Context| async move { Ok::<_, ErrorObject>("text") });
/// ```
///
/// ```compile_fail,E0277
/// # use rescind::{mcp::{NoArguments, Server}, peer::ErrorObject};
/// struct NotResult;
/// Server::new("x", "1").tool("no_result", "", |_: NoArguments| async { Ok::<_, ErrorObject>(NotResult) });
/// ```
///
/// ```compile_fail
/// # use rescind::{mcp::{NoArguments, Server}, peer::{Context, ErrorObject}};
/// Server::new("x", "1").tool("not_send", "", |_: NoArguments, cx: Context| async move {
///     let held = std::rc::Rc::new("text");
///     cx.cancelled().await;
///     Ok::<_, ErrorObject>(*held)
/// });
/// ```
///
/// ```
/// # use rescind::{mcp::{NoArguments, Server}, peer::{Context, ErrorObject}};
/// let server = Server::new("x", "1").tool("right", "", |_: NoArguments, cx: Context| async move {
///     cx.cancelled().await;
///     Ok::<_, ErrorObject>("text")
/// });
/// ```
#[cfg(all(doctest, feature = "schemars"))]
mod mistakes {}
