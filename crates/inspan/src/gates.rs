//! Closures and functions as gates.

use std::{any::type_name, fmt::Display, future::Future, sync::Arc};

use inspan_core::gate::{BoxFuture, Gate, GateCall, Verdict};

/// What can be a gate: see [`Agent::gate`](crate::Agent::gate). `Form` only tells the forms apart
/// and is never written out.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a gate",
    label = "not a gate",
    note = "a gate is a `Fn(&GateCall) -> Verdict`, an `async fn(GateCall) -> Verdict`, or a type \
            that implements `Gate`; in place of the `Verdict` it may give a `Result` with one",
    note = "a closure needs the type of its parameter: `|call: &GateCall| …`"
)]
pub trait IntoGate<Form> {
    /// The gate.
    fn into_gate(self) -> Arc<dyn Gate>;
}

/// What a gate's function can give.
pub trait IntoVerdict {
    /// The verdict; an error refuses.
    fn into_verdict(self) -> Result<Verdict, String>;
}

impl IntoVerdict for Verdict {
    fn into_verdict(self) -> Result<Verdict, String> {
        Ok(self)
    }
}

impl<E: Display> IntoVerdict for Result<Verdict, E> {
    fn into_verdict(self) -> Result<Verdict, String> {
        self.map_err(|error| format!("{error:#}"))
    }
}

/// Tells a value that is a gate from the other forms.
#[doc(hidden)]
pub struct Whole;

impl<G: Gate + 'static> IntoGate<Whole> for G {
    fn into_gate(self) -> Arc<dyn Gate> {
        Arc::new(self)
    }
}

/// A function that answers at once.
struct AtOnce<F>(F);

impl<F, V> IntoGate<fn(&GateCall) -> V> for F
where
    F: Fn(&GateCall) -> V + Send + Sync + 'static,
    V: IntoVerdict,
{
    fn into_gate(self) -> Arc<dyn Gate> {
        Arc::new(AtOnce(self))
    }
}

impl<F, V> Gate for AtOnce<F>
where
    F: Fn(&GateCall) -> V + Send + Sync,
    V: IntoVerdict,
{
    fn name(&self) -> &str {
        name_of::<F>()
    }

    fn judge<'a>(&'a self, call: &'a GateCall) -> BoxFuture<'a, Result<Verdict, String>> {
        Box::pin(std::future::ready((self.0)(call).into_verdict()))
    }
}

/// A function that has to wait before it can answer.
struct Later<F>(F);

impl<F, Fut> IntoGate<fn(GateCall) -> Fut> for F
where
    F: Fn(GateCall) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoVerdict> + Send + 'static,
{
    fn into_gate(self) -> Arc<dyn Gate> {
        Arc::new(Later(self))
    }
}

impl<F, Fut> Gate for Later<F>
where
    F: Fn(GateCall) -> Fut + Send + Sync,
    Fut: Future<Output: IntoVerdict> + Send + 'static,
{
    fn name(&self) -> &str {
        name_of::<F>()
    }

    fn judge<'a>(&'a self, call: &'a GateCall) -> BoxFuture<'a, Result<Verdict, String>> {
        let judged = (self.0)(call.clone());
        Box::pin(async move { judged.await.into_verdict() })
    }
}

/// The name of a function; for a closure, that of the function in which it stands.
fn name_of<F>() -> &'static str {
    let is_name = |part: &&str| !part.starts_with('{');
    type_name::<F>().rsplit("::").find(is_name).unwrap_or("gate")
}
