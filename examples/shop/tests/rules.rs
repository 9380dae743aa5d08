//! The rules of the shop, whatever a model asks for.

use std::process::{Command, Output};

use inspan::{
    Agent,
    testing::{Answer, ScriptedModel},
};
use serde_json::{Value, json};
use shop::{Orders, support};

/// What became of one call, and the states of the orders 1 to 5 after it.
async fn call(tool: &str, arguments: Value) -> (String, [String; 5]) {
    let orders = Orders::open(":memory:").await.unwrap();
    let model = ScriptedModel::new([Answer::calls(&[(tool, arguments)]), Answer::text("Done.")]);
    let done = support(Agent::with_provider(model), orders.clone()).act("Go").await.unwrap();
    let step = done.tools().next().unwrap();
    let states: Vec<String> = orders.all().await.unwrap().into_iter().map(|o| o.status).collect();
    (format!("{}: {}", step.how, step.text), states.try_into().unwrap())
}

#[tokio::test]
async fn refunds() {
    const UNTOUCHED: [&str; 5] = ["shipped", "placed", "placed", "placed", "refunded"];
    const FINAL: &str = "This is final; do not try the same call again.";
    let table = [
        (json!({ "order": 4 }), "ok: Refunded 59.00 € for order 4.".to_owned()),
        (
            json!({ "order": 1 }),
            format!("refused: Refused: order 1 is shipped; it has to be sent back first. {FINAL}"),
        ),
        (
            json!({ "order": 2 }),
            format!("refused: Refused: 149.00 € is too much without a person. {FINAL}"),
        ),
        (json!({ "order": 5 }), "failed: Failed: order 5 is refunded already".to_owned()),
        (
            json!({ "order": 6 }),
            "failed: Failed: there is no order 6; search for the customer's name".to_owned(),
        ),
        (
            json!({ "order": "four" }),
            "bad_arguments: Not run: the arguments do not fit. /order: invalid type: string \"four\", \
             expected i64"
                .to_owned(),
        ),
    ];
    for (number, (arguments, told)) in table.into_iter().enumerate() {
        let (step, states) = call("refund", arguments).await;
        assert_eq!(step, told);
        let mut expected = UNTOUCHED;
        if number == 0 {
            expected[3] = "refunded";
        }
        assert_eq!(states, expected, "{told}");
    }
}

#[tokio::test]
async fn searches() {
    let ana = "ok: Order 1: desk lamp for Ana Sousa, 39.90 €, shipped.\n\
               Order 3: kettle for Ana Sousa, 24.50 €, placed.";
    assert_eq!(call("search_orders", json!({ "text": "ana" })).await.0, ana);
    let chair = "ok: Order 4: garden chair for Marta Lopes, 59.00 €, placed.";
    assert_eq!(call("search_orders", json!({ "text": "CHAIR" })).await.0, chair);
    let none = "ok: No order has \"100%\" in its customer or item.";
    assert_eq!(call("search_orders", json!({ "text": "100%" })).await.0, none);
}

#[tokio::test]
async fn a_key_refunds_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("orders.db");
    let orders = Orders::open(&path).await.unwrap();
    assert!(orders.refund(3, "a").await.unwrap());
    drop(orders);
    // The process died after the refund, before its result was written down: it is asked again.
    let orders = Orders::open(&path).await.unwrap();
    assert!(orders.refund(3, "a").await.unwrap());
    assert!(!orders.refund(3, "b").await.unwrap());
    assert_eq!(orders.get(3).await.unwrap().unwrap().status, "refunded");
}

fn shop(arguments: &[&str]) -> Output {
    let mut shop = Command::new(env!("CARGO_BIN_EXE_shop"));
    shop.env_remove("ANTHROPIC_API_KEY").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn the_program_plays_a_recording_without_a_key() {
    let output = shop(&["Please refund order 3."]);
    assert_eq!(text(&output.stdout), "Order 3, the kettle, is refunded: you get 24.50 € back.\n");
    assert_eq!(
        text(&output.stderr),
        "No ANTHROPIC_API_KEY is set: a recorded session answers.\n  \
         order_status({\"order\": 3}) ok: Order 3: kettle for Ana Sousa, 24.50 €, placed.\n  \
         refund({\"order\": 3}) ok: Refunded 24.50 € for order 3.\n"
    );
    assert_eq!(output.status.code(), Some(0));

    let output = shop(&["Where is my parcel?"]);
    assert_eq!(text(&output.stdout), "");
    assert!(text(&output.stderr).contains("the recording knows no such prompt; it has: `Please"));
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(shop(&[]).status.code(), Some(2));
}

#[test]
fn orders_are_kept_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("orders.db");
    let path = path.to_str().unwrap();
    assert_eq!(shop(&["Please refund order 3.", path]).status.code(), Some(0));
    // The order is another one now, and the recording does not know it so.
    let output = shop(&["Please refund order 3.", path]);
    let drift = "+  order_status ok \"Order 3: kettle for Ana Sousa, 24.50 €, refunded.\"";
    assert!(text(&output.stderr).contains(drift), "{}", text(&output.stderr));
}
