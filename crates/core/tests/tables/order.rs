//! Which calls run side by side, and which one after the other.

use inspan_core::message::How;

use crate::log::{Log, call};

#[test]
fn calls_that_only_read_run_side_by_side_and_are_answered_in_order() {
    let mut log = Log::new();
    log.prompt("Look.");
    log.replied(&[call("look", "{\"n\":1}"), call("list", "{}"), call("look", "{\"n\":2}")]);
    log.finished(2, How::Ok, "third");
    log.finished(0, How::Ok, "first");
    log.finished(1, How::Ok, "second");
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > replied End: look({"n":1}), list({}), look({"n":2})
        judge call_5_0
        run call_5_0 look, attempt 1, key s/call_5_0, Pure []
        judge call_5_1
        run call_5_1 list, attempt 1, key s/call_5_1, Idempotent []
        judge call_5_2
        run call_5_2 look, attempt 1, key s/call_5_2, Pure []
        wait
        > finished call_5_2 ok: "third"
        wait
        > finished call_5_0 ok: "first"
        wait
        > finished call_5_1 ok: "second"
        ask model: round 2, attempt 1, reads 48, writes 8192 at most
        wait
        --------
        user: Look.
        model: look({"n":1})
        model: list({})
        model: look({"n":2})
        call_5_0 ok: first
        call_5_1 ok: second
        call_5_2 ok: third
    "#);
}

#[test]
fn a_call_with_effects_waits_for_those_before_it_and_holds_those_after_it() {
    let mut log = Log::new();
    log.prompt("Go.");
    log.replied(&[call("look", "{}"), call("rm", "{}"), call("look", "{}")]);
    log.finished(0, How::Ok, "first");
    log.finished(1, How::Ok, "second");
    log.finished(2, How::Ok, "third");
    log.is(r#"
        > prompt "Go."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > replied End: look({}), rm({}), look({})
        judge call_5_0
        run call_5_0 look, attempt 1, key s/call_5_0, Pure []
        wait
        > finished call_5_0 ok: "first"
        judge call_5_1
        run call_5_1 rm, attempt 1, key s/call_5_1, Once ["destroys"]
        wait
        > finished call_5_1 ok: "second"
        judge call_5_2
        run call_5_2 look, attempt 1, key s/call_5_2, Pure []
        wait
        > finished call_5_2 ok: "third"
        ask model: round 2, attempt 1, reads 45, writes 8192 at most
        wait
        --------
        user: Go.
        model: look({})
        model: rm({})
        model: look({})
        call_5_0 ok: first
        call_5_1 ok: second
        call_5_2 ok: third
    "#);
}

#[test]
fn calls_on_other_resources_need_no_order() {
    let mut log = Log::new();
    log.prompt("Write.");
    let put = |path: &str| call("put", &format!("{{\"path\":\"{path}\"}}"));
    log.replied(&[put("a"), put("b"), put("a")]);
    log.finished(1, How::Ok, "b");
    log.finished(0, How::Ok, "a");
    log.is(r#"
        > prompt "Write."
        ask model: round 1, attempt 1, reads 38, writes 8192 at most
        wait
        > replied End: put({"path":"a"}), put({"path":"b"}), put({"path":"a"})
        judge call_5_0
        run call_5_0 put, attempt 1, key s/call_5_0, Idempotent ["writes"]
        judge call_5_1
        run call_5_1 put, attempt 1, key s/call_5_1, Idempotent ["writes"]
        wait
        > finished call_5_1 ok: "b"
        wait
        > finished call_5_0 ok: "a"
        judge call_5_2
        run call_5_2 put, attempt 1, key s/call_5_2, Idempotent ["writes"]
        wait
        --------
        user: Write.
        model: put({"path":"a"})
        model: put({"path":"b"})
        model: put({"path":"a"})
        call_5_0 ok: a
        call_5_1 ok: b
        call_5_2 unknown: No result was recorded for this call.
    "#);
}

#[test]
fn not_more_than_so_many_at_once() {
    let mut log = Log::with(|config| config.limits.calls_at_once_max = 2);
    log.prompt("Look.");
    log.replied(&[call("look", "1"), call("look", "{}"), call("look", "{}"), call("look", "{}")]);
    log.finished(2, How::Ok, "third");
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > replied End: look(1), look({}), look({}), look({})
        judge call_5_0
        judge call_5_1
        run call_5_1 look, attempt 1, key s/call_5_1, Pure []
        judge call_5_2
        run call_5_2 look, attempt 1, key s/call_5_2, Pure []
        wait
        > finished call_5_2 ok: "third"
        judge call_5_3
        run call_5_3 look, attempt 1, key s/call_5_3, Pure []
        wait
        --------
        user: Look.
        model: look(1)
        model: look({})
        model: look({})
        model: look({})
        call_5_0 bad_arguments: Not run: the arguments are not a JSON object. Write the call again with valid JSON.
        call_5_1 unknown: No result was recorded for this call.
        call_5_2 ok: third
        call_5_3 unknown: No result was recorded for this call.
    "#);
}
