use serde_json::json;

use super::*;

#[tokio::test]
async fn what_can_not_be_shown_is_named() {
    let text = |data: &str| json!({ "content": [{ "type": "image", "data": data }] });
    let large = "A".repeat(PICTURE_BYTES_MAX / 3 * 4 + 8);
    let table = [
        (text("AAAA"), "[a picture (unknown type): 3 bytes that can't be shown]"),
        (text("%%"), "[a picture (unknown type): its bytes can't be read]"),
        (text(&large), "[a picture (unknown type): too large to be shown]"),
        (
            json!({ "content": [{ "type": "resource", "resource": { "uri": "a://b", "blob": "AA==",
                "mimeType": "application/pdf" } }] }),
            "[a://b (application/pdf): 1 bytes that can't be shown]",
        ),
        (json!({ "structuredContent": { "a": 1 } }), r#"{"a":1}"#),
        (json!({ "content": [7] }), "7"),
        (json!({ "content": "none" }), ""),
        (json!({}), ""),
    ];
    for (value, expected) in table {
        assert_eq!(result(&value, None).await.unwrap().to_text(), expected);
    }
}

#[tokio::test]
async fn failures_say_why() {
    let table = [
        (json!({ "isError": true }), "the tool failed and did not say why"),
        (
            json!({ "resultType": "task" }),
            "the server answered with `task`, which is not supported",
        ),
    ];
    for (value, expected) in table {
        assert_eq!(result(&value, None).await.unwrap_err().message, expected);
    }
}

#[tokio::test]
async fn structured_content_is_told_once() {
    let answer = |text: &str, structured: &Value| json!({ "content": [{ "type": "text", "text": text }], "structuredContent": structured });
    let table = [
        ("{\"b\": 1, \"a\": [2]}", json!({ "a": [2], "b": 1 }), true),
        ("5", json!({ "result": 5 }), true),
        ("Five.", json!({ "result": "Five." }), true),
        ("[1]", json!({ "result": [1] }), true),
        ("It is warm.", json!({ "celsius": 25 }), false),
        ("5", json!({ "result": 5, "unit": "m" }), false),
        ("6", json!({ "result": 5 }), false),
    ];
    for (text, structured, is_same) in table {
        let result = result(&answer(text, &structured), None).await.unwrap();
        assert_eq!(result.to_text(), text);
        assert_eq!(result.evidence, (!is_same).then_some(structured), "{text}");
    }
    // What stands in place of a text is none beside it.
    let alone = result(&json!({ "structuredContent": { "a": 1 } }), None).await.unwrap();
    assert_eq!((alone.to_text().as_str(), alone.evidence), (r#"{"a":1}"#, None));
}
