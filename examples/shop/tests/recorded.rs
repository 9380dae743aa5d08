//! The recorded sessions, played with no model through the real loop, gate, tools and table.

use inspan::{Agent, Done, Stop, testing};
use shop::{Order, Orders, support};

/// A session of the recordings on new orders: what came of it, and the orders that it changed, as
/// they were and as they are.
async fn play(recording: &str, prompt: &str) -> (Done, Vec<(String, String)>) {
    let orders = Orders::open(":memory:").await.unwrap();
    let before = orders.all().await.unwrap();
    let path = format!("recordings/{recording}.jsonl");
    let agent = Agent::with_provider(testing::replay(path).unwrap());
    let done = support(agent, orders.clone()).act(prompt).await.unwrap();
    (done, changed(&before, &orders.all().await.unwrap()))
}

fn changed(before: &[Order], after: &[Order]) -> Vec<(String, String)> {
    assert_eq!(before.len(), after.len());
    let pairs = before.iter().zip(after).filter(|(before, after)| before != after);
    pairs.map(|(before, after)| (before.to_string(), after.to_string())).collect()
}

fn tools(done: &Done) -> Vec<String> {
    done.tools().map(ToString::to_string).collect()
}

#[tokio::test]
async fn the_status_of_an_order() {
    let (done, changed) = play("status", "Where is my order 1?").await;
    assert_eq!(
        tools(&done),
        [r#"order_status({"order": 1}) ok: Order 1: desk lamp for Ana Sousa, 39.90 €, shipped."#]
    );
    assert_eq!(changed, []);
    assert_eq!(done.stop, Stop::End);
    assert_eq!(done.text, "Your desk lamp (order 1) has been shipped and is on its way to you.");
}

#[tokio::test]
async fn an_allowed_refund() {
    let (done, changed) = play("refund", "Please refund order 3.").await;
    assert_eq!(
        tools(&done),
        [
            r#"order_status({"order": 3}) ok: Order 3: kettle for Ana Sousa, 24.50 €, placed."#,
            r#"refund({"order": 3}) ok: Refunded 24.50 € for order 3."#,
        ]
    );
    let order = |status| format!("Order 3: kettle for Ana Sousa, 24.50 €, {status}.");
    assert_eq!(changed, [(order("placed"), order("refunded"))]);
    assert_eq!(done.stop, Stop::End);
    assert_eq!(done.text, "Order 3, the kettle, is refunded: you get 24.50 € back.");
}

#[tokio::test]
async fn a_refused_refund() {
    let (done, changed) = play("refused", "Please refund order 2.").await;
    assert_eq!(
        tools(&done),
        [
            r#"order_status({"order": 2}) ok: Order 2: bookshelf for Rui Costa, 149.00 €, placed."#,
            "refund({\"order\": 2}) refused: Refused: 149.00 € is too much without a person. This \
             is final; do not try the same call again.",
        ]
    );
    assert_eq!(changed, []);
    assert_eq!(done.stop, Stop::End);
    assert_eq!(
        done.text,
        "I can't refund order 2 myself, because 149.00 € is more than I may decide about. Please \
         write to a colleague at the counter, who can."
    );
}

#[tokio::test]
async fn an_unknown_order() {
    let (done, changed) = play("unknown", "Please refund order 99.").await;
    assert_eq!(
        tools(&done),
        [
            "refund({\"order\": 99}) failed: Failed: there is no order 99; search for the customer's \
          name"
        ]
    );
    assert_eq!(changed, []);
    assert_eq!(done.stop, Stop::End);
    assert_eq!(
        done.text,
        "There is no order 99. What name did you order under? Then I can look for it."
    );
}
