//! A tool of a server as a tool of ours.

use std::sync::{Arc, OnceLock};

use inspan_core::{
    effects::Repeat,
    gate::BoxFuture,
    message::{Content, ToolResult},
    tool::{Invocation, Tool, ToolError, ToolSpec},
};
use inspan_engine::tools::Progress;
use inspan_schema::Schema;
use serde_json::Value;

use crate::{
    Pictures,
    call::Asked,
    content,
    ear::Attention,
    inquiry::Inquiries,
    server::{Call, Server},
};

/// A tool of a server. Its schema is made ready when it is first needed: most tools are never
/// called.
pub(crate) struct ServerTool {
    spec: Arc<ToolSpec>,
    schema: OnceLock<Result<Schema, String>>,
    /// The name that the server knows.
    tool: String,
    server: Arc<Server>,
    pictures: Option<Pictures>,
}

impl ServerTool {
    pub(crate) fn new(
        spec: ToolSpec,
        tool: String,
        server: Arc<Server>,
        pictures: Option<Pictures>,
    ) -> Self {
        Self { spec: Arc::new(spec), schema: OnceLock::new(), tool, server, pictures }
    }
}

impl Tool for ServerTool {
    fn spec(&self) -> Arc<ToolSpec> {
        self.spec.clone()
    }

    fn check(&self, arguments: Value) -> Result<Value, String> {
        let schema = self.schema.get_or_init(|| Schema::compile(&self.spec.input));
        schema.as_ref().map_err(Clone::clone)?.check(arguments)
    }

    fn run(&self, call: Invocation) -> BoxFuture<'static, Result<ToolResult, ToolError>> {
        let (server, spec, tool) = (self.server.clone(), self.spec.clone(), self.tool.clone());
        let pictures = self.pictures.clone();
        Box::pin(async move {
            let Value::Object(arguments) = &call.arguments else {
                return Err(ToolError::new("the arguments are no object"));
            };
            let progress = call.shared.get::<Progress>().cloned();
            let person = call.shared.get::<Inquiries>().cloned();
            let attention = Attention::new(server.name(), progress, person);
            let key = (spec.repeat == Repeat::Keyed).then_some(call.key.as_str());
            let call = Call {
                asked: Asked::Tool { name: &tool, arguments, key },
                attention: &attention,
                may_repeat: spec.side_by_side(),
            };
            let result = server.call(call).await.map_err(ToolError::new);
            let result = match result {
                Ok(result) => content::result(&result, pictures.as_ref()).await,
                Err(error) => Err(error),
            };
            with_unasked(result, attention.unasked())
        })
    }
}

/// A result with what the server wanted to be told and was not: it may be the reason for it.
fn with_unasked(
    result: Result<ToolResult, ToolError>,
    unasked: Option<String>,
) -> Result<ToolResult, ToolError> {
    let Some(why) = unasked else { return result };
    match result {
        Ok(mut result) => {
            result.content.push(Content::text(format!("[{why}]")));
            Ok(result)
        }
        Err(mut error) if !error.message.contains(&why) => {
            error.message = format!("{why}\n{}", error.message);
            Err(error)
        }
        failed => failed,
    }
}
