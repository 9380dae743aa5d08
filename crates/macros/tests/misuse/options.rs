use inspan::tool;

/// Has an effect that does not exist.
#[tool(effects(reads_untrusted, deletes))]
fn effect() {}

/// Has no list of effects.
#[tool(effects = "writes")]
fn effects() {}

/// Repeats in a way that does not exist.
#[tool(repeat = twice)]
fn repeat() {}

/// Wants to be asked.
#[tool(repeat = probe)]
fn probe() {}

/// Has an option that does not exist.
#[tool(retries = 3)]
fn option() {}

/// Has an option twice.
#[tool(repeat = pure, repeat = once)]
fn twice() {}

/// Has a time without a unit.
#[tool(timeout = "20")]
fn timeout() {}

/// Has a name that no provider takes.
#[tool(name = "the weather")]
fn name() {}

/// Works on nothing that it has.
#[tool(resource = "path")]
fn resource(file: String, line: u32) {}

/// Has a quoted word.
#[tool(repeat = "pure")]
fn quoted() {}

/// Has a time that is a number.
#[tool(timeout = 20)]
fn number() {}

/// Says that it polls twice.
#[tool(polls = true)]
fn polls() {}

fn main() {}
