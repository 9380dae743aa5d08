//! A shop's support agent: three tools on a table of orders, and the gate that keeps refunds small.

mod orders;

use inspan::{Agent, Context, GateCall, ToolError, Verdict, tool};

use orders::euros;
pub use orders::{Order, Orders};

/// From this price on, in cents, a refund is for people.
pub const REFUND_CENTS_MAX: i64 = 10_000;

const SYSTEM: &str = "\
You answer the customers of a small shop. Look an order up before you say anything about it. When a
refund is not possible, say why, and what the customer can do. Answer in one or two plain sentences.";

/// The agent: `agent` brings the model, this the rest.
pub fn support(agent: Agent, orders: Orders) -> Agent {
    agent
        .name("shop")
        .system(SYSTEM)
        .tool(order_status)
        .tool(search_orders)
        .tool(refund)
        .gate(small_refunds)
        .shared(orders)
}

/// The state of one order: who ordered what, the price, and whether it is placed, shipped or
/// refunded.
#[tool(effects(reads_private), repeat = pure)]
async fn order_status(
    context: &Context,
    /// The order's number.
    order: i64,
) -> Result<String, ToolError> {
    let orders: &Orders = context.shared()?;
    let order = orders.get(order).await?.ok_or_else(|| unknown(order))?;
    Ok(order.to_string())
}

/// Finds orders by a part of the customer's name or of the item.
#[tool(effects(reads_private), repeat = pure)]
async fn search_orders(
    context: &Context,
    /// A part of a name or of an item, such as "lamp".
    text: String,
) -> Result<String, ToolError> {
    let orders: &Orders = context.shared()?;
    let found: Vec<String> = orders.search(&text).await?.iter().map(Order::to_string).collect();
    if found.is_empty() {
        return Ok(format!("No order has \"{text}\" in its customer or item."));
    }
    Ok(found.join("\n"))
}

/// Refunds a whole order that was placed and not yet shipped.
#[tool(effects(writes, spends), repeat = keyed, resource = "order")]
async fn refund(
    context: &Context,
    /// The order's number.
    order: i64,
) -> Result<String, ToolError> {
    let orders: &Orders = context.shared()?;
    let refunded = orders.refund(order, context.key()).await?;
    let order = orders.get(order).await?.ok_or_else(|| unknown(order))?;
    if !refunded {
        return Err(ToolError::new(format!("order {} is {} already", order.id, order.status)));
    }
    Ok(format!("Refunded {} for order {}.", euros(order.cents), order.id))
}

/// No refund of what is shipped, and none of 100 € or more. An order that nobody knows passes: the
/// tool explains that better.
async fn small_refunds(call: GateCall) -> Result<Verdict, ToolError> {
    if call.tool.name != "refund" {
        return Ok(Verdict::Allow);
    }
    let orders = call.shared.get::<Orders>().ok_or_else(|| ToolError::new("no orders"))?;
    let Some(number) = call.arguments["order"].as_i64() else {
        return Ok(Verdict::Deny("the order has no number".to_owned()));
    };
    Ok(match orders.get(number).await? {
        Some(order) if order.status == "shipped" => {
            Verdict::Deny(format!("order {number} is shipped; it has to be sent back first"))
        }
        Some(order) if order.cents >= REFUND_CENTS_MAX => {
            Verdict::Deny(format!("{} is too much without a person", euros(order.cents)))
        }
        _ => Verdict::Allow,
    })
}

fn unknown(order: i64) -> ToolError {
    ToolError::new(format!("there is no order {order}; search for the customer's name"))
}
