#[allow(unused_imports)] use inspan::{Context, tool};

#[tool]
fn without_a_description() {}

/// Has two contexts.
#[tool]
async fn two_contexts(a: &Context, b: &Context) {}

struct Shop;

/// Is a method.
#[tool]
fn method(&self) {}

/// Is generic.
#[tool]
fn generic<T>(of: T) {}

/// Has a lifetime.
#[tool]
fn lifetime<'a>(of: String) {}

/// Borrows its argument.
#[tool]
fn borrows(city: &str) {}

/// Borrows what is lent in another way.
#[tool]
fn lent(shop: &Shop) {}

/// Changes its context.
#[tool]
fn changes(context: &mut Context) {}

/// Takes whatever has a trait.
#[tool]
fn any(text: impl ToString) {}

/// Takes a nameless argument.
#[tool]
fn pattern((a, b): (u8, u8)) {}

/// Is no function.
#[tool]
struct Weather;

/// Has a name that no provider takes.
#[tool]
fn météo() {}

/// Has a default that is none.
#[tool]
fn default(#[default] count: u8) {}

fn main() {}
