//! What is done with a call before its tool is.

use std::{collections::BTreeMap, future::Future, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::{RawValue, to_raw_value};

use super::{
    Revision, ToolResult,
    tool::{arguments, outcome, refuse},
};
use crate::peer::{
    Context, ErrorObject,
    extract::{OnRequest, Scope},
    handler::{HandlerOutput, StartHandler},
};

/// An async function that makes the arguments of a tool from those of its call: `|arguments: T, cx: Context| async move
/// { … }`, where `T` is `serde::Deserialize` and the result is an object as JSON.
///
/// It may [ask](Context::ask) the client. It is stopped as the tool is; a call that is cancelled meanwhile never reaches
/// the tool.
#[derive(Clone)]
pub struct Preparation(Arc<dyn Fn(StartHandler) -> StartHandler + Send + Sync>);

impl Preparation {
    /// Prepares calls by this function. Its error is the answer of the call.
    pub fn new<T, P, E, Fut>(prepare: impl Fn(T, Context) -> Fut + Send + Sync + 'static) -> Self
    where
        T: DeserializeOwned,
        P: Serialize,
        E: Into<ErrorObject>,
        Fut: Future<Output = Result<P, E>> + Send + 'static,
    {
        let prepare = Arc::new(prepare);
        Self(Arc::new(move |tool| {
            let prepare = Arc::clone(&prepare);
            Arc::new(move |scope| {
                let revision = Revision::of(scope.context().dialect());
                let preparing = match arguments(scope) {
                    Ok(arguments) => prepare(arguments, scope.context()),
                    Err(error) => return refuse(&error, revision),
                };
                let (request, tool) = (scope.clone(), Arc::clone(&tool));
                Ok(Box::pin(async move {
                    let prepared = preparing.await.map_err(Into::into);
                    match prepared.and_then(|prepared| with_arguments(request, &prepared)) {
                        Ok(request) => match tool(&request) {
                            Ok(handling) => handling.await,
                            Err(error) => HandlerOutput::Error(error),
                        },
                        Err(error) => outcome(Err::<ToolResult, _>(error), revision),
                    }
                }))
            })
        }))
    }

    /// Calls a tool with prepared arguments.
    pub(super) fn before(self, tool: StartHandler) -> StartHandler {
        (self.0)(tool)
    }
}

debug_fields!(Preparation);

/// The call, with these arguments in place of its own.
fn with_arguments(request: OnRequest, prepared: &impl Serialize) -> Result<OnRequest, ErrorObject> {
    let prepared = to_raw_value(prepared)?;
    if !prepared.get().starts_with('{') {
        return Err(ErrorObject::internal("the prepared arguments are not an object"));
    }
    let mut params: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(request.params().unwrap_or(b"{}"))
        .map_err(|error| ErrorObject::invalid_params(error.to_string()))?;
    params.insert("arguments".to_owned(), prepared);
    Ok(request.with_params(to_raw_value(&params)?))
}
