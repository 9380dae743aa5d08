//! Reasoning as OpenRouter writes it: `reasoning_details`, a list of blocks that must come back as
//! they were, though they come in pieces.

use inspan_core::{
    message::{Reasoning, ReplyPart},
    prompt::Said,
};
use serde_json::{Map, Value};

use crate::quirks::CallIds;

/// The blocks of a reply, so far.
#[derive(Default)]
pub(super) struct Details {
    blocks: Vec<Map<String, Value>>,
}

impl Details {
    /// Takes the pieces of one event.
    pub(super) fn grow(&mut self, pieces: &[Value]) {
        for piece in pieces.iter().filter_map(Value::as_object) {
            match self.blocks.last_mut().filter(|last| goes_on(last, piece)) {
                Some(last) => join(last, piece),
                None => self.blocks.push(piece.clone()),
            }
        }
    }

    /// All of it, as it must be sent back. What can be shown of it came as text beside it.
    pub(super) fn into_reasoning(self) -> Reasoning {
        let is_set = |field: &Value| field.as_str().is_some_and(|text| !text.is_empty());
        let signed = self.blocks.last().is_some_and(|last| {
            ["signature", "data"].iter().any(|name| last.get(*name).is_some_and(is_set))
        });
        let blocks: Vec<Value> = self.blocks.into_iter().map(Value::Object).collect();
        Reasoning { text: String::new(), raw: Value::Array(blocks).to_string(), signed }
    }
}

/// The blocks of a reply as they are sent: `None` where it has none. A block that names a call by its
/// server's identifier names it as the request does.
pub(super) fn sent(reply: &Said, call_ids: CallIds) -> Option<Value> {
    let raw = reply.parts.iter().find_map(|part| match part {
        ReplyPart::Reasoning(reasoning) if !reasoning.raw.is_empty() => Some(&reasoning.raw),
        _ => None,
    })?;
    let mut blocks: Value = serde_json::from_str(raw).ok().filter(Value::is_array)?;
    for block in blocks.as_array_mut()? {
        let named = block["id"]
            .as_str()
            .and_then(|id| reply.calls().find(|call| call.provider_id.as_deref() == Some(id)));
        if let Some(call) = named {
            block["id"] = call_ids.sent(&call.id).into();
        }
    }
    Some(blocks)
}

/// Where the text of a block stands that comes in pieces; `None` for a kind that comes whole.
fn text_of(block: &Map<String, Value>) -> Option<&'static str> {
    match block.get("type")?.as_str()? {
        "reasoning.text" => Some("text"),
        "reasoning.summary" => Some("summary"),
        _ => None,
    }
}

/// Whether a piece belongs to the block before it. The signature of a block comes last and alone
/// (github.com/agno-agi/agno/issues/8794), and the index of every piece is 0 on some models
/// (github.com/OpenRouterTeam/ai-sdk-provider/issues/519), so only neighbours of one kind are joined.
fn goes_on(last: &Map<String, Value>, piece: &Map<String, Value>) -> bool {
    let Some(text) = text_of(piece) else { return false };
    let is_set = |block: &Map<String, Value>, name: &str| {
        block.get(name).is_some_and(|field| !field.is_null() && field != "")
    };
    let is_same = |name: &str| {
        !is_set(last, name) || !is_set(piece, name) || last.get(name) == piece.get(name)
    };
    let is_over = is_set(last, "signature") && is_set(piece, text);
    text_of(last) == Some(text) && is_same("index") && is_same("id") && !is_over
}

/// Texts grow; what the block does not have yet is taken.
fn join(block: &mut Map<String, Value>, piece: &Map<String, Value>) {
    let text = text_of(piece);
    for (name, value) in piece {
        match (block.get_mut(name), value) {
            (Some(Value::String(so_far)), Value::String(more)) if Some(name.as_str()) == text => {
                so_far.push_str(more);
            }
            (None | Some(Value::Null), value) => {
                block.insert(name.clone(), value.clone());
            }
            (Some(so_far), value) if *so_far == "" => *so_far = value.clone(),
            (Some(_), _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use inspan_core::message::{CallId, ReplyStop, ToolCall};
    use serde_json::json;

    use super::*;

    fn joined(events: &[Value]) -> Reasoning {
        let mut details = Details::default();
        for event in events {
            details.grow(event.as_array().unwrap());
        }
        details.into_reasoning()
    }

    #[test]
    fn pieces_become_the_blocks_that_they_were() {
        let text = |text: &str| json!({"type": "reasoning.text", "text": text, "index": 0});
        let sealed = |data: &str| json!({"type": "reasoning.encrypted", "data": data, "index": 0});
        let signature = json!({"type": "reasoning.text", "signature": "c2ln", "index": 0});
        let table = [
            // The signature comes last and alone; what follows is another block.
            (
                vec![json!([text("Let")]), json!([text(" me.")]), json!([signature, text("B")])],
                json!([
                    {"type": "reasoning.text", "text": "Let me.", "index": 0, "signature": "c2ln"},
                    text("B"),
                ]),
                false,
            ),
            // What is encrypted is never joined, whatever its index.
            (
                vec![json!([sealed("a")]), json!([sealed("b")])],
                json!([sealed("a"), sealed("b")]),
                true,
            ),
            (
                vec![
                    json!([{"type": "reasoning.summary", "summary": "A", "id": null}]),
                    json!([{"type": "reasoning.summary", "summary": "B", "id": "rs_1"}, 7]),
                    json!([{"type": "reasoning.summary", "summary": "C", "id": "rs_2"}]),
                ],
                json!([
                    {"type": "reasoning.summary", "summary": "AB", "id": "rs_1"},
                    {"type": "reasoning.summary", "summary": "C", "id": "rs_2"},
                ]),
                false,
            ),
        ];
        for (events, blocks, signed) in table {
            let expected = Reasoning { text: String::new(), raw: blocks.to_string(), signed };
            assert_eq!(joined(&events), expected);
        }
    }

    #[test]
    fn a_block_names_its_call_as_the_request_does() {
        let call = ToolCall {
            id: CallId::new(5, 0),
            provider_id: Some("tool_0_look".to_owned()),
            name: "look".to_owned(),
            arguments: "{}".to_owned(),
            complete: true,
        };
        let raw = json!([{"data": "x", "id": "tool_0_look"}, {"data": "y", "id": "rs_1"}]);
        let reasoning = Reasoning { raw: raw.to_string(), ..Reasoning::default() };
        let reply = Said {
            parts: vec![ReplyPart::Reasoning(reasoning), ReplyPart::Call(call)],
            stop: ReplyStop::End,
            issuer: "".into(),
        };
        let expected = json!([{"data": "x", "id": "call_5_0"}, {"data": "y", "id": "rs_1"}]);
        assert_eq!(sent(&reply, CallIds::Ours), Some(expected));
    }
}
