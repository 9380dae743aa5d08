//! Questions to a person, and their answers.

use std::sync::Arc;

use inspan_core::{
    event::{AgentRef, PermissionAnswered, SessionConfigured},
    gate::{AnsweredBy, Choice, Verdict},
    hash::Hash,
    message::{CallId, How},
    tool::ToolSpec,
};

use crate::log::{Log, call};

fn asking(count: usize) -> Log {
    let mut log = Log::new();
    log.verdicts.extend(vec![Verdict::Ask("it destroys".to_owned()); count]);
    log.prompt("Remove it.");
    log
}

#[test]
fn once_is_for_one_call() {
    let mut log = asking(2);
    log.replied(&[call("rm", "{}"), call("rm", "{}")]);
    log.answered(0, Choice::Once);
    log.finished(0, How::Ok, "gone");
    log.answered(1, Choice::No);
    log.is(r#"
        > prompt "Remove it."
        ask model: round 1, attempt 1, reads 39, writes 8192 at most
        wait
        > replied End: rm({}), rm({})
        judge call_5_0
        ask person: call_5_0 rm({}), "it destroys", [Once, Session, No]
        wait
        > answered call_5_0 Once
        run call_5_0 rm, attempt 1, key s/call_5_0, Once ["destroys"]
        wait
        > finished call_5_0 ok: "gone"
        judge call_5_1
        ask person: call_5_1 rm({}), "it destroys", [Once, Session, No]
        wait
        > answered call_5_1 No
        answer call_5_1 rm refused: "Refused: no reason given. This is final; do not try the same call again."
        ask model: round 2, attempt 1, reads 60, writes 8192 at most
        wait
        --------
        user: Remove it.
        model: rm({})
        model: rm({})
        call_5_0 ok: gone
        call_5_1 refused: Refused: no reason given. This is final; do not try the same call again.
    "#);
}

#[test]
fn session_is_for_all_later_calls_of_the_tool() {
    let mut log = asking(3);
    log.replied(&[call("rm", "{}"), call("rm", "{}"), call("pay", "{}")]);
    log.answered(0, Choice::Session);
    log.finished(0, How::Ok, "gone");
    log.finished(1, How::Ok, "gone too");
    log.is(r#"
        > prompt "Remove it."
        ask model: round 1, attempt 1, reads 39, writes 8192 at most
        wait
        > replied End: rm({}), rm({}), pay({})
        judge call_5_0
        ask person: call_5_0 rm({}), "it destroys", [Once, Session, No]
        wait
        > answered call_5_0 Session
        run call_5_0 rm, attempt 1, key s/call_5_0, Once ["destroys"]
        wait
        > finished call_5_0 ok: "gone"
        judge call_5_1
        run call_5_1 rm, attempt 1, key s/call_5_1, Once ["destroys"]
        wait
        > finished call_5_1 ok: "gone too"
        judge call_5_2
        ask person: call_5_2 pay({}), "it destroys", [Once, Session, No]
        wait
        --------
        user: Remove it.
        model: rm({})
        model: rm({})
        model: pay({})
        call_5_0 ok: gone
        call_5_1 ok: gone too
        call_5_2 unknown: No result was recorded for this call.
    "#);
}

#[test]
fn nobody_there_is_no() {
    let mut log = asking(1);
    log.alone();
    log.replied(&[call("rm", "{}")]);
    log.is(r#"
        > prompt "Remove it."
        ask model: round 1, attempt 1, reads 39, writes 8192 at most
        wait
        > nobody is there
        wait
        > replied End: rm({})
        judge call_5_0
        call_5_0 No by Nobody: "nobody is there to be asked"
        answer call_5_0 rm refused: "Refused: nobody is there to be asked. This is final; do not try the same call again."
        ask model: round 2, attempt 1, reads 61, writes 8192 at most
        wait
        --------
        user: Remove it.
        model: rm({})
        call_5_0 refused: Refused: nobody is there to be asked. This is final; do not try the same call again.
    "#);
}

#[test]
fn a_question_outlives_its_process_and_then_nobody_is_there() {
    let mut log = asking(1);
    log.replied(&[call("rm", "{}")]);
    log.dies();
    log.alone();
    log.is(r#"
        > prompt "Remove it."
        ask model: round 1, attempt 1, reads 39, writes 8192 at most
        wait
        > replied End: rm({})
        judge call_5_0
        ask person: call_5_0 rm({}), "it destroys", [Once, Session, No]
        wait
        > died, recovered with: woken Interrupted
        wait
        > nobody is there
        call_5_0 No by Nobody: "nobody is there to be asked"
        answer call_5_0 rm refused: "Refused: nobody is there to be asked. This is final; do not try the same call again."
        ask model: round 2, attempt 1, reads 61, writes 8192 at most
        wait
        --------
        user: Remove it.
        model: rm({})
        call_5_0 refused: Refused: nobody is there to be asked. This is final; do not try the same call again.
    "#);
}

#[test]
fn a_second_answer_and_one_to_another_call_change_nothing() {
    let mut log = asking(1);
    log.replied(&[call("rm", "{}"), call("rm", "{}")]);
    log.answered_for(CallId("call_9_9".to_owned()), Choice::Once);
    log.answered(1, Choice::Once);
    log.answered(0, Choice::No);
    log.answered(0, Choice::Once);
    log.is(r#"
        > prompt "Remove it."
        ask model: round 1, attempt 1, reads 39, writes 8192 at most
        wait
        > replied End: rm({}), rm({})
        judge call_5_0
        ask person: call_5_0 rm({}), "it destroys", [Once, Session, No]
        wait
        > answered call_9_9 Once
        wait
        > answered call_5_1 Once
        wait
        > answered call_5_0 No
        answer call_5_0 rm refused: "Refused: no reason given. This is final; do not try the same call again."
        judge call_5_1
        run call_5_1 rm, attempt 1, key s/call_5_1, Once ["destroys"]
        wait
        > answered call_5_0 Once
        wait
        --------
        user: Remove it.
        model: rm({})
        model: rm({})
        call_5_0 refused: Refused: no reason given. This is final; do not try the same call again.
        call_5_1 unknown: No result was recorded for this call.
    "#);
}

#[test]
fn a_cancel_ends_a_question() {
    let mut log = asking(1);
    log.replied(&[call("rm", "{}")]);
    log.cancel();
    log.answered_for(CallId("call_5_0".to_owned()), Choice::Once);
    log.is(r#"
        > prompt "Remove it."
        ask model: round 1, attempt 1, reads 39, writes 8192 at most
        wait
        > replied End: rm({})
        judge call_5_0
        ask person: call_5_0 rm({}), "it destroys", [Once, Session, No]
        wait
        > cancel
        answer call_5_0 rm cancelled: "Cancelled by the user."
        end cancelled ""
        idle
        > answered call_5_0 Once
        idle
        --------
        user: Remove it.
        model: rm({})
        call_5_0 cancelled: Cancelled by the user.
    "#);
}

/// It was a yes to a tool of the agent as it was then.
#[test]
fn a_yes_that_was_not_used_yet_does_not_hold_for_another_agent() {
    let agent = |hash: &str| {
        let hash = Hash::of_bytes(hash.as_bytes());
        Some(AgentRef { name: "clerk".to_owned(), path: "/agents/clerk".to_owned(), hash })
    };
    let mut log = Log::with(|config| config.agent = agent("as it was"));
    log.persons_answer_later();
    log.verdicts.extend(vec![Verdict::Ask("it destroys".to_owned()); 2]);
    log.prompt("Remove it.");
    log.replied(&[call("rm", "{}")]);
    let config = log.state.config.as_deref().cloned().unwrap();
    let changed = SessionConfigured { agent: agent("as it is now"), ..config };
    let (call, by, why) = (CallId::new(5, 0), AnsweredBy::Person, String::new());
    log.append(PermissionAnswered { call, choice: Choice::Once, by, why }.into());
    log.append(changed.into());
    log.woken();
    let asked = "ask person: call_5_0 rm({}), \"it destroys\", [Once, Session, No]";
    assert_eq!(log.story.matches(asked).count(), 2, "{}", log.story);
    assert_eq!(log.story.matches("run call_5_0").count(), 0, "{}", log.story);
}

/// A yes, also one for the session, ends when the tool is declared otherwise at the next start.
#[test]
fn a_yes_does_not_hold_for_another_tool() {
    for (description, asked_times, allowed) in [("Removes all.", 2, 0), ("Does rm.", 1, 1)] {
        let mut log = Log::with(|config| {
            let spec = ToolSpec::new("rm", "Does rm.");
            config.tools.retain(|tool| tool.name != "rm");
            config.tools.push(Arc::new(spec));
        });
        log.persons_answer_later();
        log.verdicts.extend(vec![Verdict::Ask("it destroys".to_owned()); 2]);
        log.prompt("Remove it.");
        log.replied(&[call("rm", "{}")]);
        let mut changed = log.state.config.as_deref().cloned().unwrap();
        for tool in changed.tools.iter_mut().filter(|tool| tool.name == "rm") {
            Arc::make_mut(tool).description = description.to_owned();
        }
        let (call, by, why) = (CallId::new(5, 0), AnsweredBy::Person, String::new());
        log.append(PermissionAnswered { call, choice: Choice::Session, by, why }.into());
        log.append(changed.into());
        log.woken();
        let asked = "ask person: call_5_0 rm({}), \"it destroys\", [Once, Session, No]";
        assert_eq!(log.story.matches(asked).count(), asked_times, "{}", log.story);
        assert_eq!(log.state.allowed.len(), allowed, "{}", log.story);
    }
}
