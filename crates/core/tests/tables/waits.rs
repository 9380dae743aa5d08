//! What a parked turn waits for, and what wakes it.

use inspan_core::{
    gate::{Choice, Verdict},
    message::{How, Job},
    recover::fork,
    store::SessionId,
    tool::Probed,
};

use crate::log::{Log, call, text};

#[test]
fn a_permission_parks_the_turn_until_it_is_answered() {
    let mut log = Log::new();
    log.persons_answer_later();
    log.verdicts = [Verdict::Ask("it costs".to_owned()), Verdict::Allow].into();
    log.prompt("Pay, then look.");
    log.replied(&[call("pay", "{}"), call("look", "{}")]);
    log.later(3_600_000);
    log.answered(0, Choice::Once);
    log.finished(0, How::Ok, "paid");
    log.finished(1, How::Ok, "19");
    log.is(r#"
        > prompt "Pay, then look."
        ask model: round 1, attempt 1, reads 40, writes 8192 at most
        wait
        > replied End: pay({}), look({})
        judge call_5_0
        ask person: call_5_0 pay({}), "it costs", [Once, Session, No]
        park until None: "pay (call_5_0) waits for a person"
        end parked "pay (call_5_0) waits for a person"
        idle
        > 3600000 ms later
        idle
        > answered call_5_0 Once
        woken Unparked
        run call_5_0 pay, attempt 1, key s/call_5_0, Keyed ["spends"]
        wait
        > finished call_5_0 ok: "paid"
        judge call_5_1
        run call_5_1 look, attempt 1, key s/call_5_1, Pure []
        wait
        > finished call_5_1 ok: "19"
        ask model: round 2, attempt 1, reads 44, writes 8192 at most
        wait
        --------
        user: Pay, then look.
        model: pay({})
        model: look({})
        call_5_0 ok: paid
        call_5_1 ok: 19
    "#);
}

#[test]
fn a_tool_that_answers_later_parks_the_turn() {
    let mut log = Log::new();
    log.prompt("Remove it.");
    log.replied(&[call("rm", "{}")]);
    log.deferred(0, "job 7", Some(9_000));
    log.later(9_000);
    log.finished(0, How::Ok, "removed");
    log.replied(&[text("Done.")]);
    log.is(r#"
        > prompt "Remove it."
        ask model: round 1, attempt 1, reads 39, writes 8192 at most
        wait
        > replied End: rm({})
        judge call_5_0
        run call_5_0 rm, attempt 1, key s/call_5_0, Once ["destroys"]
        wait
        > deferred call_5_0 as job 7
        park until Some(9000): "rm (call_5_0) waits for its job job 7"
        end parked "rm (call_5_0) waits for its job job 7"
        idle until 9000
        > 9000 ms later
        woken Unparked
        park until None: "rm (call_5_0) waits for its job job 7"
        end parked "rm (call_5_0) waits for its job job 7"
        idle
        > finished call_5_0 ok: "removed"
        woken Unparked
        ask model: round 2, attempt 1, reads 41, writes 8192 at most
        wait
        > replied End: "Done."
        end end ""
        idle
        --------
        user: Remove it.
        model: rm({})
        call_5_0 ok: removed
        model: "Done."
    "#);
}

#[test]
fn a_job_is_probed_when_its_time_has_come() {
    let mut log = Log::new();
    log.probed = Probed::Pending(Job { id: "job 7".to_owned(), probe_after_ms: Some(1_000) });
    log.prompt("Post it.");
    log.replied(&[call("post", "{}")]);
    log.deferred(0, "job 7", Some(9_000));
    log.later(9_000);
    log.probed = Probed::Done(inspan_core::message::ToolResult::text("posted"));
    log.later(1_000);
    log.is(r#"
        > prompt "Post it."
        ask model: round 1, attempt 1, reads 38, writes 8192 at most
        wait
        > replied End: post({})
        judge call_5_0
        run call_5_0 post, attempt 1, key s/call_5_0, Probe ["sends"]
        wait
        > deferred call_5_0 as job 7
        park until Some(9000): "post (call_5_0) waits for its job job 7"
        end parked "post (call_5_0) waits for its job job 7"
        idle until 9000
        > 9000 ms later
        woken Unparked
        probe call_5_0
        park until Some(10000): "post (call_5_0) waits for its job job 7"
        end parked "post (call_5_0) waits for its job job 7"
        idle until 10000
        > 1000 ms later
        woken Unparked
        probe call_5_0
        ask model: round 2, attempt 1, reads 41, writes 8192 at most
        wait
        --------
        user: Post it.
        model: post({})
        call_5_0 ok: posted
    "#);
}

#[test]
fn a_prompt_goes_before_what_is_waited_for_and_the_result_is_news_once() {
    let mut log = Log::new();
    log.prompt("Remove it.");
    log.replied(&[call("rm", "{}")]);
    log.deferred(0, "job 7", None);
    log.prompt("What else?");
    log.replied(&[text("Nothing.")]);
    for _ in 0..2 {
        log.news("call_5_0", "rm", "removed");
    }
    log.prompt("And?");
    log.is(r#"
        > prompt "Remove it."
        ask model: round 1, attempt 1, reads 39, writes 8192 at most
        wait
        > replied End: rm({})
        judge call_5_0
        run call_5_0 rm, attempt 1, key s/call_5_0, Once ["destroys"]
        wait
        > deferred call_5_0 as job 7
        park until None: "rm (call_5_0) waits for its job job 7"
        end parked "rm (call_5_0) waits for its job job 7"
        idle
        > prompt "What else?"
        ask model: round 1, attempt 1, reads 45, writes 8192 at most
        wait
        > replied End: "Nothing."
        end end ""
        idle
        > news of call_5_0
        idle
        > news of call_5_0
        idle
        > prompt "And?"
        ask model: round 1, attempt 1, reads 63, writes 8192 at most
        wait
        --------
        user: Remove it.
        model: rm({})
        call_5_0 ok: [no output]
        user: What else?
        model: "Nothing."
        user: [Late result of rm (call_5_0), after it was answered: removed]
        user: And?
    "#);
}

fn parent() -> SessionId {
    SessionId::from_u128(0)
}

#[test]
fn a_fork_knows_nothing_of_what_was_open() {
    let mut log = Log::new();
    log.prompt("Remove it, and look.");
    log.replied(&[call("rm", "{}"), call("look", "{}")]);
    let child = SessionId::try_from("child".to_owned()).unwrap();
    let events = fork(&log.state, parent(), child, "0.1.0", 0);
    log.story.clear();
    events.into_iter().for_each(|event| log.append(event));
    log.dies();
    log.is(r#"
        > died, recovered with: woken Interrupted
        ask model: round 2, attempt 1, reads 108, writes 8192 at most
        wait
        --------
        user: Remove it, and look.
        model: rm({})
        model: look({})
        call_5_0 unknown: Outcome unknown: this session was forked while the call was open. It may or may not have happened. Check before you try it again.
        call_5_1 unknown: Outcome unknown: this session was forked while the call was open. It may or may not have happened. Check before you try it again.
    "#);
}

#[test]
fn a_prompt_that_comes_before_the_park_goes_first_too() {
    let mut log = Log::new();
    log.prompt("List it, and look.");
    log.replied(&[call("list", "{}"), call("look", "{}")]);
    log.deferred(0, "job 7", None);
    log.prompt("Forget it.");
    log.finished(1, How::Ok, "19");
    log.is(r#"
        > prompt "List it, and look."
        ask model: round 1, attempt 1, reads 41, writes 8192 at most
        wait
        > replied End: list({}), look({})
        judge call_5_0
        run call_5_0 list, attempt 1, key s/call_5_0, Idempotent []
        judge call_5_1
        run call_5_1 look, attempt 1, key s/call_5_1, Pure []
        wait
        > deferred call_5_0 as job 7
        wait
        > prompt "Forget it."
        wait
        > finished call_5_1 ok: "19"
        answer call_5_0 list ok: ""
        ask model: round 2, attempt 1, reads 49, writes 8192 at most
        wait
        --------
        user: List it, and look.
        model: list({})
        model: look({})
        call_5_0 ok: [no output]
        call_5_1 ok: 19
        user: Forget it.
    "#);
}

#[test]
fn nobody_is_sent_away_who_is_being_asked() {
    let mut log = Log::new();
    log.verdicts = [Verdict::Allow, Verdict::Ask("it writes".to_owned())].into();
    log.prompt("Put both.");
    log.replied(&[call("put", r#"{"path":"a"}"#), call("put", r#"{"path":"b"}"#)]);
    log.deferred(0, "job 7", None);
    log.answered(1, Choice::No);
    log.is(r#"
        > prompt "Put both."
        ask model: round 1, attempt 1, reads 38, writes 8192 at most
        wait
        > replied End: put({"path":"a"}), put({"path":"b"})
        judge call_5_0
        run call_5_0 put, attempt 1, key s/call_5_0, Idempotent ["writes"]
        judge call_5_1
        ask person: call_5_1 put({"path":"b"}), "it writes", [Once, Session, No]
        wait
        > deferred call_5_0 as job 7
        wait
        > answered call_5_1 No
        answer call_5_1 put refused: "Refused: no reason given. This is final; do not try the same call again."
        park until None: "put (call_5_0) waits for its job job 7"
        end parked "put (call_5_0) waits for its job job 7"
        idle
        --------
        user: Put both.
        model: put({"path":"a"})
        model: put({"path":"b"})
        call_5_0 unknown: No result was recorded for this call.
        call_5_1 refused: Refused: no reason given. This is final; do not try the same call again.
    "#);
}

#[test]
fn what_was_allowed_for_a_session_is_not_for_its_forks() {
    let mut log = Log::new();
    log.verdicts = [Verdict::Ask("it costs".to_owned())].into();
    log.prompt("Pay.");
    log.replied(&[call("pay", "{}")]);
    log.answered(0, Choice::Session);
    assert!(log.state.allowed.contains("pay"));
    let child = SessionId::try_from("child".to_owned()).unwrap();
    fork(&log.state, parent(), child, "0.1.0", 0).into_iter().for_each(|event| log.append(event));
    assert!(log.state.allowed.is_empty());
}
