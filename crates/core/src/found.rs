//! Tools that are found: a model is not told of them before it looks for them, and runs them through
//! one tool, so that a long catalogue costs little and no request changes when one is found.
//!
//! A call of [`CALL_TOOL`] is the call of the tool that it names from the moment it is in the log:
//! arguments, gates, effects and limits are those of that tool.

use serde_json::Value;

use crate::{arguments, message::ToolCall};

/// The name of the tool that finds others.
pub const FIND_TOOLS: &str = "find_tools";
/// The name of the tool that runs what was found: `{ "name": …, "arguments": { … } }`.
pub const CALL_TOOL: &str = "call_tool";

/// The field of the evidence of [`FIND_TOOLS`] that has the names of the tools that it found.
pub const FOUND_NAMES: &str = "tools";

/// The part of a model's window, in per cent, up to which all its tools are told.
pub const TOLD_TOOLS_PERCENT_MAX: u64 = 10;
/// The same in tokens where nobody knows the window.
pub const TOLD_TOOLS_TOKENS_MAX: u64 = 10_000;

/// The tool that a call means, and its arguments; `None` for what can't be read. A call that names no
/// tool stays one of [`CALL_TOOL`], which tells what is wrong. Models leave `arguments` out where
/// there are none, write them as text, or beside the name.
pub fn meant(call: &ToolCall) -> (String, Option<Value>) {
    let read = arguments::read(&call.arguments);
    if call.name != CALL_TOOL {
        return (call.name.clone(), read);
    }
    let Some(Value::Object(mut fields)) = read else { return (call.name.clone(), read) };
    let name = match fields.shift_remove("name") {
        Some(Value::String(name)) if name != CALL_TOOL => name,
        other => {
            fields.extend(other.map(|other| ("name".to_owned(), other)));
            return (call.name.clone(), Some(Value::Object(fields)));
        }
    };
    let arguments = match fields.shift_remove("arguments") {
        None | Some(Value::Null) => Some(Value::Object(fields)),
        // What stands beside them would be lost.
        Some(_) if !fields.is_empty() => None,
        Some(Value::String(text)) => arguments::read(&text),
        Some(object @ Value::Object(_)) => Some(object),
        Some(_) => None,
    };
    (name, arguments)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::CallId;

    #[test]
    fn what_a_call_means() {
        let call = |name: &str, arguments: &str| {
            meant(&ToolCall {
                id: CallId::new(1, 0),
                provider_id: None,
                name: name.to_owned(),
                arguments: arguments.to_owned(),
                complete: true,
            })
        };
        let table = [
            ("look", r#"{"name":"x"}"#, "look", Some(json!({"name": "x"}))),
            (CALL_TOOL, r#"{"name":"look","arguments":{"at":1}}"#, "look", Some(json!({"at": 1}))),
            (CALL_TOOL, r#"{"name":"look"}"#, "look", Some(json!({}))),
            (CALL_TOOL, r#"{"name":"look","arguments":null}"#, "look", Some(json!({}))),
            (CALL_TOOL, r#"{"name":"look","arguments":""}"#, "look", Some(json!({}))),
            (
                CALL_TOOL,
                r#"{"name":"look","arguments":"{\"at\":1}"}"#,
                "look",
                Some(json!({"at": 1})),
            ),
            (CALL_TOOL, r#"{"name":"look","at":1}"#, "look", Some(json!({"at": 1}))),
            (
                CALL_TOOL,
                r#"{"name":"look","arguments":null,"at":1}"#,
                "look",
                Some(json!({"at": 1})),
            ),
            // Not lossless.
            (CALL_TOOL, r#"{"name":"look","arguments":{"at":1},"dry_run":true}"#, "look", None),
            (CALL_TOOL, r#"{"name":"look","arguments":"{}","at":1}"#, "look", None),
            (CALL_TOOL, r#"{"name":"look","arguments":[1]}"#, "look", None),
            (CALL_TOOL, r#"{"name":"look","arguments":"at 1"}"#, "look", None),
            (CALL_TOOL, "look", CALL_TOOL, None),
            // No tool is named.
            (CALL_TOOL, r#"{"arguments":{}}"#, CALL_TOOL, Some(json!({"arguments": {}}))),
            (CALL_TOOL, r#"{"name":7}"#, CALL_TOOL, Some(json!({"name": 7}))),
            (CALL_TOOL, r#"{"name":"call_tool"}"#, CALL_TOOL, Some(json!({"name": "call_tool"}))),
        ];
        for (name, arguments, meant, expected) in table {
            assert_eq!(call(name, arguments), (meant.to_owned(), expected), "{name} {arguments}");
        }
    }
}
