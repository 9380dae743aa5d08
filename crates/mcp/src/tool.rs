//! A tool of a server as a tool of ours.

use std::sync::{Arc, OnceLock};

use inspan_core::{
    effects::Repeat,
    gate::BoxFuture,
    message::ToolResult,
    tool::{Invocation, Tool, ToolError, ToolSpec},
};
use inspan_engine::tools::Progress;
use inspan_schema::Schema;
use serde_json::Value;

use crate::{
    Pictures, content,
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
            let call = Call {
                tool: &tool,
                arguments,
                key: (spec.repeat == Repeat::Keyed).then_some(call.key.as_str()),
                progress: call.shared.get::<Progress>().cloned(),
                may_repeat: spec.side_by_side(),
            };
            let result = server.call(call).await.map_err(ToolError::new)?;
            content::result(&result, pictures.as_ref()).await
        })
    }
}
