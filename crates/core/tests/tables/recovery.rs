//! A process died, and another one goes on.

use inspan_core::{
    budget::Limit,
    event::{CancelRequested, LimitNeared},
    message::{How, ToolResult},
    provider::Refused,
    tool::Probed,
};

use crate::log::{Log, call, text};

fn dies_in(tools: &[&str]) -> Log {
    let mut log = Log::new();
    log.prompt("Go.");
    let calls: Vec<_> = tools.iter().map(|name| call(name, "{}")).collect();
    log.replied(&calls);
    log
}

#[test]
fn a_model_call_without_an_end_is_charged_and_asked_again() {
    let mut log = Log::new();
    log.prompt("Go.");
    log.dies();
    log.replied(&[text("Gone.")]);
    log.is(r#"
        > prompt "Go."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > died, recovered with: woken Interrupted; Interrupted "the process ended in the middle of this model call" retry Some(1000000) Some(37)
        ask model: round 1, attempt 2, reads 37, writes 8192 at most
        wait
        > replied End: "Gone."
        end end ""
        idle
        --------
        user: Go.
        model: "Gone."
    "#);
}

#[test]
fn pure_and_idempotent_calls_run_again() {
    let mut log = dies_in(&["look", "list"]);
    log.finished(0, How::Ok, "19");
    log.dies();
    log.finished(1, How::Ok, "all");
    log.is(r#"
        > prompt "Go."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > replied End: look({}), list({})
        judge call_5_0
        run call_5_0 look, attempt 1, key s/call_5_0, Pure []
        judge call_5_1
        run call_5_1 list, attempt 1, key s/call_5_1, Idempotent []
        wait
        > finished call_5_0 ok: "19"
        wait
        > died, recovered with: woken Interrupted
        run call_5_1 list, attempt 2, key s/call_5_1, Idempotent []
        wait
        > finished call_5_1 ok: "all"
        ask model: round 2, attempt 1, reads 41, writes 8192 at most
        wait
        --------
        user: Go.
        model: look({})
        model: list({})
        call_5_0 ok: 19
        call_5_1 ok: all
    "#);
}

#[test]
fn a_keyed_call_runs_again_with_its_key() {
    let mut log = dies_in(&["pay"]);
    log.dies();
    log.finished(0, How::Ok, "paid");
    log.is(r#"
        > prompt "Go."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > replied End: pay({})
        judge call_5_0
        run call_5_0 pay, attempt 1, key s/call_5_0, Keyed ["spends"]
        wait
        > died, recovered with: woken Interrupted
        run call_5_0 pay, attempt 2, key s/call_5_0, Keyed ["spends"]
        wait
        > finished call_5_0 ok: "paid"
        ask model: round 2, attempt 1, reads 39, writes 8192 at most
        wait
        --------
        user: Go.
        model: pay({})
        call_5_0 ok: paid
    "#);
}

#[test]
fn a_call_that_must_not_run_again_is_unknown() {
    let mut log = dies_in(&["rm", "look"]);
    log.dies();
    log.is(r#"
        > prompt "Go."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > replied End: rm({}), look({})
        judge call_5_0
        run call_5_0 rm, attempt 1, key s/call_5_0, Once ["destroys"]
        wait
        > died, recovered with: woken Interrupted; answer call_5_0 rm unknown: "Outcome unknown: the process that ran this call ended before it did. It may or may not have happened. Check before you try it again."
        judge call_5_1
        run call_5_1 look, attempt 1, key s/call_5_1, Pure []
        wait
        --------
        user: Go.
        model: rm({})
        model: look({})
        call_5_0 unknown: Outcome unknown: the process that ran this call ended before it did. It may or may not have happened. Check before you try it again.
        call_5_1 unknown: No result was recorded for this call.
    "#);
}

#[test]
fn a_call_that_happened_has_its_result() {
    let mut log = dies_in(&["post"]);
    log.probed = Probed::Done(ToolResult::text("posted"));
    log.dies();
    log.is(r#"
        > prompt "Go."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > replied End: post({})
        judge call_5_0
        run call_5_0 post, attempt 1, key s/call_5_0, Probe ["sends"]
        wait
        > died, recovered with: woken Interrupted
        probe call_5_0
        ask model: round 2, attempt 1, reads 40, writes 8192 at most
        wait
        --------
        user: Go.
        model: post({})
        call_5_0 ok: posted
    "#);
}

#[test]
fn a_call_that_did_not_happen_runs_again() {
    let mut log = dies_in(&["post"]);
    log.probed = Probed::Absent;
    log.dies();
    log.dies();
    log.finished(0, How::Ok, "posted");
    log.is(r#"
        > prompt "Go."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > replied End: post({})
        judge call_5_0
        run call_5_0 post, attempt 1, key s/call_5_0, Probe ["sends"]
        wait
        > died, recovered with: woken Interrupted
        probe call_5_0
        wait
        > died, recovered with: woken Interrupted
        probe call_5_0
        wait
        > finished call_5_0 ok: "posted"
        ask model: round 2, attempt 1, reads 40, writes 8192 at most
        wait
        --------
        user: Go.
        model: post({})
        call_5_0 ok: posted
    "#);
}

#[test]
fn a_call_of_which_nothing_is_known_is_unknown() {
    let mut log = dies_in(&["post"]);
    log.probed = Probed::Unknown;
    log.dies();
    log.is(r#"
        > prompt "Go."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > replied End: post({})
        judge call_5_0
        run call_5_0 post, attempt 1, key s/call_5_0, Probe ["sends"]
        wait
        > died, recovered with: woken Interrupted
        probe call_5_0
        ask model: round 2, attempt 1, reads 71, writes 8192 at most
        wait
        --------
        user: Go.
        model: post({})
        call_5_0 unknown: Outcome unknown: the process that ran this call ended before it did. It may or may not have happened. Check before you try it again.
    "#);
}

#[test]
fn a_restart_is_no_further_call() {
    let mut log = Log::with(|config| config.limits.calls_max = 1);
    log.prompt("Go.");
    log.replied(&[call("pay", "{}")]);
    log.dies();
    log.is(r#"
        > prompt "Go."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > replied End: pay({})
        judge call_5_0
        run call_5_0 pay, attempt 1, key s/call_5_0, Keyed ["spends"]
        wait
        > died, recovered with: woken Interrupted
        run call_5_0 pay, attempt 2, key s/call_5_0, Keyed ["spends"]
        wait
        --------
        user: Go.
        model: pay({})
        call_5_0 unknown: No result was recorded for this call.
    "#);
}

#[test]
fn a_restart_past_the_time_is_unknown() {
    let mut log = Log::with(|config| config.limits.time_ms_max = Some(1_000));
    log.prompt("Go.");
    log.replied(&[call("pay", "{}"), call("pay", "{}")]);
    log.now_ms += 1_000;
    log.append(LimitNeared { limit: Limit::Time, spent: 1_000, max: 1_000 }.into());
    log.dies();
    log.is(r#"
        > prompt "Go."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait until 1000
        > replied End: pay({}), pay({})
        judge call_5_0
        run call_5_0 pay, attempt 1, key s/call_5_0, Keyed ["spends"]
        wait until 1000
        > died, recovered with: woken Interrupted
        answer call_5_0 pay unknown: "Outcome unknown: the process that ran this call ended before it did. It may or may not have happened. Check before you try it again."
        answer call_5_1 pay not_run: "Not run: the limit on time was reached before it."
        end time ""
        idle
        --------
        user: Go.
        model: pay({})
        model: pay({})
        call_5_0 unknown: Outcome unknown: the process that ran this call ended before it did. It may or may not have happened. Check before you try it again.
        call_5_1 not_run: Not run: the limit on time was reached before it.
        user: [1s of 1s are used in this turn. Finish soon.]
    "#);
}

#[test]
fn a_cancel_outlives_the_process() {
    let mut log = dies_in(&["pay", "look"]);
    log.append(CancelRequested {}.into());
    log.dies();
    log.is(r#"
        > prompt "Go."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > replied End: pay({}), look({})
        judge call_5_0
        run call_5_0 pay, attempt 1, key s/call_5_0, Keyed ["spends"]
        wait
        > died, recovered with: woken Interrupted
        answer call_5_0 pay unknown: "Outcome unknown: the process that ran this call ended before it did. It may or may not have happened. Check before you try it again."
        answer call_5_1 look cancelled: "Cancelled by the user."
        end cancelled ""
        idle
        --------
        user: Go.
        model: pay({})
        model: look({})
        call_5_0 unknown: Outcome unknown: the process that ran this call ended before it did. It may or may not have happened. Check before you try it again.
        call_5_1 cancelled: Cancelled by the user.
    "#);
}

#[test]
fn nothing_is_recovered_between_turns() {
    let mut log = Log::new();
    log.dies();
    log.is(r#"
        > died, recovered with: 
        idle
        --------
        user: [no prompt]
    "#);
}

/// What ends each process that runs it is not tried for ever.
#[test]
fn a_call_that_ends_its_process_each_time_is_given_up() {
    let mut log = dies_in(&["look"]);
    for _ in 0..5 {
        log.dies();
    }
    let runs = log.story.lines().filter(|line| line.starts_with("run call_5_0")).count();
    assert_eq!(runs, 5);
    let told = "answer call_5_0 look unknown: \"Outcome unknown: each process that ran this call \
                ended before it did. Don't try it again as it is.\"";
    assert_eq!(log.story.matches(told).count(), 1, "{}", log.story);
    log.replied(&[text("It can't be done.")]);
    assert!(log.story.ends_with("end end \"\"\nidle\n"), "{}", log.story);
}

#[test]
fn a_model_call_that_ends_its_process_each_time_is_given_up() {
    let mut log = Log::new();
    log.prompt("Go.");
    for _ in 0..5 {
        log.dies();
    }
    let asked = log.story.lines().filter(|line| line.starts_with("ask model")).count();
    assert_eq!(asked, 5);
    let end = "end failed \"the process ended in the middle of this model call\"\nidle\n";
    assert!(log.story.ends_with(end), "{}", log.story);
}

/// Only ends of its process count: failures and repairs are attempts, too, and have limits of their own.
#[test]
fn an_interruption_after_other_attempts_is_the_first() {
    let mut log = Log::new();
    log.prompt("Go.");
    for name in ["list", "look", "pay", "post", "rm"] {
        log.refused(Some(Refused::Tool { name: name.to_owned() }));
    }
    log.dies();
    log.replied(&[text("Gone.")]);
    assert!(log.story.ends_with("> replied End: \"Gone.\"\nend end \"\"\nidle\n"), "{}", log.story);
}
