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
