//! Prompts and cancels at every moment.

use inspan_core::{event::CancelRequested, message::How, provider::ErrorClass};

use crate::log::{Log, call, half_call, reasoning, text};

#[test]
fn a_prompt_during_the_answer_is_answered_in_the_same_turn() {
    let mut log = Log::new();
    log.prompt("Look.");
    log.prompt("In Lisbon.");
    log.replied(&[text("Where?")]);
    log.replied(&[text("Ah, there.")]);
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > prompt "In Lisbon."
        wait
        > replied End: "Where?"
        ask model: round 2, attempt 1, reads 41, writes 8192 at most
        wait
        > replied End: "Ah, there."
        end end ""
        idle
        --------
        user: Look.
        model: "Where?"
        user: In Lisbon.
        model: "Ah, there."
    "#);
}

#[test]
fn a_prompt_while_a_tool_runs_goes_with_its_result() {
    let mut log = Log::new();
    log.prompt("Look.");
    log.replied(&[call("look", "{}")]);
    log.prompt("Hurry.");
    log.finished(0, How::Ok, "19");
    log.replied(&[text("19.")]);
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > replied End: look({})
        judge call_5_0
        run call_5_0 look, attempt 1, key s/call_5_0, Pure []
        wait
        > prompt "Hurry."
        wait
        > finished call_5_0 ok: "19"
        ask model: round 2, attempt 1, reads 41, writes 8192 at most
        wait
        > replied End: "19."
        end end ""
        idle
        --------
        user: Look.
        model: look({})
        call_5_0 ok: 19
        user: Hurry.
        model: "19."
    "#);
}

#[test]
fn a_cancel_before_anything_arrived() {
    let mut log = Log::new();
    log.prompt("Look.");
    log.cancel();
    log.prompt("Look again.");
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > cancel
        abort Cancelled
        end cancelled ""
        idle
        > prompt "Look again."
        ask model: round 1, attempt 1, reads 40, writes 8192 at most
        wait
        --------
        user: Look.
        user: Look again.
    "#);
}

#[test]
fn a_cancel_in_the_middle_of_a_reply_keeps_text_and_signed_reasoning() {
    let mut log = Log::new();
    log.prompt("Look.");
    log.arrived = vec![
        reasoning(true),
        text("Let me"),
        reasoning(false),
        call("look", "{}"),
        half_call("rm"),
    ];
    log.cancel();
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > cancel
        abort Cancelled
        answer call_6_0 look cancelled: "Cancelled by the user."
        end cancelled ""
        idle
        --------
        user: Look.
        model: (signed)
        model: "Let me"
        model: look({})
        call_6_0 cancelled: Cancelled by the user.
    "#);
}

#[test]
fn a_cancel_while_tools_run_and_wait() {
    let mut log = Log::new();
    log.prompt("Go.");
    log.replied(&[call("look", "{}"), call("look", "{}"), call("rm", "{}")]);
    log.finished(1, How::Ok, "19");
    log.cancel();
    log.prompt("What was done?");
    log.is(r#"
        > prompt "Go."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > replied End: look({}), look({}), rm({})
        judge call_5_0
        run call_5_0 look, attempt 1, key s/call_5_0, Pure []
        judge call_5_1
        run call_5_1 look, attempt 1, key s/call_5_1, Pure []
        wait
        > finished call_5_1 ok: "19"
        wait
        > cancel
        abort Cancelled
        answer call_5_2 rm cancelled: "Cancelled by the user."
        end cancelled ""
        idle
        > prompt "What was done?"
        ask model: round 1, attempt 1, reads 56, writes 8192 at most
        wait
        --------
        user: Go.
        model: look({})
        model: look({})
        model: rm({})
        call_5_0 cancelled: Cancelled by the user.
        call_5_1 ok: 19
        call_5_2 cancelled: Cancelled by the user.
        user: What was done?
    "#);
}

#[test]
fn a_cancel_before_the_next_attempt() {
    let mut log = Log::new();
    log.prompt("Look.");
    log.failed(ErrorClass::Overloaded, None);
    log.cancel();
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > failed Overloaded
        wait until 500
        > cancel
        end cancelled ""
        idle
        --------
        user: Look.
    "#);
}

#[test]
fn a_prompt_after_the_cancel_begins_the_next_turn() {
    let mut log = Log::new();
    log.prompt("Look.");
    log.append(CancelRequested {}.into());
    log.prompt("No, listen.");
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > prompt "No, listen."
        abort Cancelled
        end cancelled "", a prompt is unread
        ask model: round 1, attempt 1, reads 40, writes 8192 at most
        wait
        --------
        user: Look.
        user: No, listen.
    "#);
}

#[test]
fn a_prompt_that_a_failure_left_unread_begins_the_next_turn() {
    let mut log = Log::new();
    log.prompt("Look.");
    log.prompt("Quick.");
    log.failed(ErrorClass::Auth, None);
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > prompt "Quick."
        wait
        > failed Auth
        end failed "Auth it was", a prompt is unread
        ask model: round 1, attempt 1, reads 39, writes 8192 at most
        wait
        --------
        user: Look.
        user: Quick.
    "#);
}

#[test]
fn a_cancel_of_nothing_is_nothing() {
    let mut log = Log::new();
    log.cancel();
    log.is(r#"
        > cancel
        idle
        --------
        user: [no prompt]
    "#);
}

#[test]
fn a_request_under_way_carries_nothing_that_came_later() {
    let mut log = Log::new();
    log.prompt("Look.");
    log.prompt("In Lisbon.");
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > prompt "In Lisbon."
        wait
        --------
        user: Look.
    "#);
}
