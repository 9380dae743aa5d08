//! A tool that gives back what it was given: to try an agent, a model or the harness itself.

use std::{future, sync::Arc};

use inspan_core::{
    effects::{Effects, Repeat},
    gate::BoxFuture,
    message::ToolResult,
    tool::{Invocation, Tool, ToolError, ToolSpec},
};
use serde_json::{Value, json};

/// Gives back its one argument, `text`. No effects; may run any number of times.
#[derive(Clone, Debug)]
pub struct Echo {
    spec: Arc<ToolSpec>,
}

impl Default for Echo {
    fn default() -> Self {
        let spec = ToolSpec {
            input: json!({
                "type": "object",
                "properties": { "text": { "type": "string" } },
                "required": ["text"],
                "additionalProperties": false,
            }),
            effects: Effects::NONE,
            repeat: Repeat::Pure,
            ..ToolSpec::new("echo", "Gives back the text that it is given.")
        };
        Self { spec: Arc::new(spec) }
    }
}

impl Tool for Echo {
    fn spec(&self) -> Arc<ToolSpec> {
        Arc::clone(&self.spec)
    }

    fn check(&self, arguments: Value) -> Result<Value, String> {
        let Value::Object(fields) = &arguments else {
            return Err("the arguments must be an object".to_owned());
        };
        if let Some(name) = fields.keys().find(|name| *name != "text") {
            return Err(format!("/{name}: there is no such argument; there is: text"));
        }
        match fields.get("text") {
            Some(Value::String(_)) => Ok(arguments),
            Some(_) => Err("/text: must be a string".to_owned()),
            None => Err("/text: is missing; it must be a string".to_owned()),
        }
    }

    fn run(&self, call: Invocation) -> BoxFuture<'static, Result<ToolResult, ToolError>> {
        let text = call.arguments.get("text").and_then(Value::as_str).unwrap_or_default();
        Box::pin(future::ready(Ok(ToolResult::text(text))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_one_string() {
        let table = [
            (json!({ "text": "hi" }), Ok(json!({ "text": "hi" }))),
            (json!({ "text": 1 }), Err("/text: must be a string")),
            (json!({}), Err("/text: is missing; it must be a string")),
            (json!({ "tex": "" }), Err("/tex: there is no such argument; there is: text")),
            (json!("hi"), Err("the arguments must be an object")),
        ];
        for (arguments, checked) in table {
            assert_eq!(Echo::default().check(arguments), checked.map_err(str::to_owned));
        }
    }
}
