//! What is asked before a tool runs: is there such a tool, do the arguments fit, do the gates
//! agree.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use futures_util::FutureExt;
use inspan_core::{
    Event,
    arguments::depth,
    budget::{GATE_MS_MAX, JSON_DEPTH_MAX},
    decide::not_run,
    event::GateJudged,
    gate::{Gate, GateCall, Verdict},
    mask::Mask,
    message::How,
    shared::Shared,
    store::SessionId,
    tool::Tool,
    turn::OpenCall,
    words,
};

/// Names that are offered in place of one that does not exist.
const NEAR_NAMES_MAX: usize = 3;

/// The fact that follows from judging `open`. What a check or a gate says may quote the arguments,
/// and is masked.
pub(crate) async fn judge(
    session: SessionId,
    open: OpenCall,
    tools: Arc<HashMap<String, Arc<dyn Tool>>>,
    gates: Vec<Arc<dyn Gate>>,
    shared: Shared,
    mask: Mask,
) -> Event {
    let refused = |how, text: &str| not_run(&open, how, &mask.text(text)).into();
    // What the log says of the tool counts: it may be new since the call was asked for.
    let Some(tool) = tools.get(&open.name).filter(|_| open.tool.is_some()) else {
        let near = near_names(&open.name, tools.keys());
        let text = words::unknown_tool(&open.name, &near);
        return refused(How::UnknownTool, &text);
    };
    let Some(arguments) = open.arguments.clone() else {
        return refused(How::BadArguments, words::UNREADABLE);
    };
    // Code of the program's own: what breaks down in it ends the call, not the session.
    let checked = catch_unwind(AssertUnwindSafe(|| tool.check(arguments)));
    let checked = match checked.unwrap_or_else(|_| Err(words::BROKE_DOWN.to_owned())) {
        Ok(checked) if depth(&checked) <= JSON_DEPTH_MAX => checked,
        Ok(_) => return refused(How::BadArguments, words::UNREADABLE),
        Err(why) => return refused(How::BadArguments, &words::bad_arguments(&why)),
    };
    let call = open.call.id.clone();
    let (tool, arguments) = (tool.spec(), checked);
    let asked = GateCall { session, call: call.clone(), tool, arguments, shared };
    let (gate, verdict) = all_agree(&gates, &asked).await;
    let verdict = match verdict {
        Verdict::Allow => Verdict::Allow,
        Verdict::Ask(why) => Verdict::Ask(mask.text(&why).into_owned()),
        Verdict::Deny(why) => Verdict::Deny(mask.text(&why).into_owned()),
    };
    let arguments =
        Some(asked.arguments).filter(|checked| Some(checked) != open.arguments.as_ref());
    GateJudged { call, gate, verdict, arguments }.into()
}

/// The first `Deny` is final; an `Ask` stands when no later gate denies.
async fn all_agree(gates: &[Arc<dyn Gate>], call: &GateCall) -> (String, Verdict) {
    let mut outcome = (String::new(), Verdict::Allow);
    for gate in gates {
        let judged = AssertUnwindSafe(async { gate.judge(call).await }).catch_unwind();
        let judged = tokio::time::timeout(Duration::from_millis(GATE_MS_MAX), judged);
        let verdict = match judged.await {
            Ok(Ok(Ok(verdict))) => verdict,
            Ok(Err(_)) => Verdict::Deny(format!("the gate {} itself broke down", gate.name())),
            Ok(Ok(Err(why))) => Verdict::Deny(format!("the gate {} failed: {why}", gate.name())),
            Err(_) => Verdict::Deny(format!(
                "the gate {} was not done after {}",
                gate.name(),
                words::duration(GATE_MS_MAX)
            )),
        };
        match verdict {
            Verdict::Deny(_) => return (gate.name().to_owned(), verdict),
            Verdict::Ask(_) if outcome.1 == Verdict::Allow => {
                outcome = (gate.name().to_owned(), verdict);
            }
            Verdict::Ask(_) | Verdict::Allow => {}
        }
    }
    outcome
}

/// The names that come near to one that does not exist.
pub fn near_names<'a>(name: &str, names: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    let mut near: Vec<(f64, &str)> = names
        .map(|other| (strsim::jaro_winkler(name, other), other.as_str()))
        .filter(|(similarity, _)| *similarity > 0.7)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    near.into_iter().take(NEAR_NAMES_MAX).map(|(_, name)| name).collect()
}
