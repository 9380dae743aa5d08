//! Every limit: the note, the closing call, its reserve, the stop.

use inspan_core::{
    budget::Price,
    decide::not_run,
    message::{How, ReplyStop, Usage},
};

use crate::log::{Log, call, half_call, text};

fn counted(input: u64, output: u64) -> Usage {
    Usage { input: Some(input), output: Some(output), ..Usage::default() }
}

/// One round with one call and this result.
fn round(log: &mut Log, tool: &str, result: &str) {
    log.replied(&[call(tool, "{}")]);
    if log.state.calls.iter().any(|open| !open.is_answered()) {
        log.finished(0, How::Ok, result);
    }
}

#[test]
fn rounds() {
    let mut log = Log::with(|config| config.limits.rounds_max = 5);
    log.prompt("Look.");
    for result in ["1", "2", "3", "4", "5"] {
        round(&mut log, "look", result);
    }
    log.replied(&[text("It grows."), call("look", "{}")]);
    log.prompt("Go on.");
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > replied End: look({})
        judge call_5_0
        run call_5_0 look, attempt 1, key s/call_5_0, Pure []
        wait
        > finished call_5_0 ok: "1"
        ask model: round 2, attempt 1, reads 39, writes 8192 at most
        wait
        > replied End: look({})
        judge call_10_0
        run call_10_0 look, attempt 1, key s/call_10_0, Pure []
        wait
        > finished call_10_0 ok: "2"
        ask model: round 3, attempt 1, reads 41, writes 8192 at most
        wait
        > replied End: look({})
        judge call_15_0
        run call_15_0 look, attempt 1, key s/call_15_0, Pure []
        wait
        > finished call_15_0 ok: "3"
        ask model: round 4, attempt 1, reads 43, writes 8192 at most
        wait
        > replied End: look({})
        judge call_20_0
        run call_20_0 look, attempt 1, key s/call_20_0, Pure []
        wait
        > finished call_20_0 ok: "4"
        near Rounds: 4 of 5
        ask model: round 5, attempt 1, reads 57, writes 8192 at most
        wait
        > replied End: look({})
        judge call_26_0
        run call_26_0 look, attempt 1, key s/call_26_0, Pure []
        wait
        > finished call_26_0 ok: "5"
        ask model: round 5, attempt 1, closing for Rounds, reads 59, writes 2048 at most
        wait
        > replied End: "It grows.", look({})
        answer call_31_0 look not_run: "Not run: the limit on rounds was reached before it."
        end rounds ""
        idle
        > prompt "Go on."
        ask model: round 1, attempt 1, reads 111, writes 8192 at most
        wait
        --------
        user: Look.
        model: look({})
        call_5_0 ok: 1
        model: look({})
        call_10_0 ok: 2
        model: look({})
        call_15_0 ok: 3
        model: look({})
        call_20_0 ok: 4
        user: [4 of 5 rounds are used in this turn. Finish soon.]
        model: look({})
        call_26_0 ok: 5
        user: [The limit on rounds of this turn is reached. No tool will run any more. Answer now, in text, with what you have; say what is unfinished.]
        model: "It grows."
        model: look({})
        call_31_0 not_run: Not run: the limit on rounds was reached before it.
        user: Go on.
    "#);
}

#[test]
fn tokens_with_a_reserve_for_the_closing_call() {
    let mut log = Log::with(|config| config.limits.tokens_max = Some(1_000));
    log.usage = counted(300, 50);
    log.prompt("Look.");
    round(&mut log, "look", "1");
    log.replied(&[text("Enough.")]);
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 963 at most
        wait
        > replied End: look({})
        judge call_5_0
        run call_5_0 look, attempt 1, key s/call_5_0, Pure []
        wait
        > finished call_5_0 ok: "1"
        ask model: round 1, attempt 1, closing for Tokens, reads 351, writes 100 at most
        wait
        > replied End: "Enough."
        end tokens ""
        idle
        --------
        user: Look.
        model: look({})
        call_5_0 ok: 1
        user: [The limit on tokens of this turn is reached. No tool will run any more. Answer now, in text, with what you have; say what is unfinished.]
        model: "Enough."
    "#);
}

#[test]
fn a_reply_that_was_cut_for_its_limit_leaves_room_for_the_closing_call() {
    let mut log = Log::with(|config| config.limits.tokens_max = Some(20_000));
    log.usage = counted(1_000, 100);
    log.prompt("Look.");
    round(&mut log, "look", "1");
    log.usage = counted(1_200, 7_000);
    log.replied_as(ReplyStop::Length, &[text("A long"), half_call("look")]);
    log.replied(&[text("Enough.")]);
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > replied End: look({})
        judge call_5_0
        run call_5_0 look, attempt 1, key s/call_5_0, Pure []
        wait
        > finished call_5_0 ok: "1"
        ask model: round 2, attempt 1, reads 1101, writes 7221 at most
        wait
        > replied Length: "A long", look({"n":…
        ask model: round 2, attempt 1, closing for Tokens, reads 8224, writes 2000 at most
        wait
        > replied End: "Enough."
        end tokens ""
        idle
        --------
        user: Look.
        model: look({})
        call_5_0 ok: 1
        model: "A long"
        user: [Your reply was cut at its limit of 7221 tokens. Go on from there, or answer in fewer words.]
        user: [The limit on tokens of this turn is reached. No tool will run any more. Answer now, in text, with what you have; say what is unfinished.]
        model: "Enough."
    "#);
}

#[test]
fn tokens_without_room_for_a_closing_call() {
    let mut log = Log::with(|config| config.limits.tokens_max = Some(1_000));
    log.usage = counted(900, 200);
    log.prompt("Look.");
    round(&mut log, "look", "1");
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 963 at most
        wait
        > replied End: look({})
        answer call_5_0 look not_run: "Not run: the limit on tokens was reached before it."
        end tokens "nothing is left for a closing answer"
        idle
        --------
        user: Look.
        model: look({})
        call_5_0 not_run: Not run: the limit on tokens was reached before it.
    "#);
}

#[test]
fn tokens_are_near() {
    let mut log = Log::with(|config| config.limits.tokens_max = Some(100_000));
    log.usage = Usage { output: Some(81_000), ..Usage::default() };
    log.prompt("Look.");
    round(&mut log, "look", "1");
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > replied End: look({})
        judge call_5_0
        run call_5_0 look, attempt 1, key s/call_5_0, Pure []
        wait
        > finished call_5_0 ok: "1"
        near Tokens: 81000 of 100000
        ask model: round 2, attempt 1, reads 54, writes 8192 at most
        wait
        --------
        user: Look.
        model: look({})
        call_5_0 ok: 1
        user: [81000 of 100000 tokens are used in this turn. Finish soon.]
    "#);
}

#[test]
fn cost() {
    let price = Price { input: 1_000, output: 5_000, cache_read: 100, cache_write: 1_250 };
    let mut log = Log::with(|config| {
        config.model.price = Some(price);
        config.limits.cost_max_nano_usd = Some(5_000_000);
    });
    log.usage = counted(500, 50);
    log.prompt("Look.");
    for result in ["1", "2", "3", "4"] {
        round(&mut log, "look", result);
    }
    log.replied(&[text("That was dear.")]);
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 992 at most
        wait
        > replied End: look({})
        judge call_5_0
        run call_5_0 look, attempt 1, key s/call_5_0, Pure []
        wait
        > finished call_5_0 ok: "1"
        ask model: round 2, attempt 1, reads 551, writes 398 at most
        wait
        > replied End: look({})
        judge call_10_0
        run call_10_0 look, attempt 1, key s/call_10_0, Pure []
        wait
        > finished call_10_0 ok: "2"
        ask model: round 3, attempt 1, reads 551, writes 273 at most
        wait
        > replied End: look({})
        judge call_15_0
        run call_15_0 look, attempt 1, key s/call_15_0, Pure []
        wait
        > finished call_15_0 ok: "3"
        ask model: round 4, attempt 1, reads 551, writes 148 at most
        wait
        > replied End: look({})
        judge call_20_0
        run call_20_0 look, attempt 1, key s/call_20_0, Pure []
        wait
        > finished call_20_0 ok: "4"
        ask model: round 4, attempt 1, closing for Cost, reads 551, writes 100 at most
        wait
        > replied End: "That was dear."
        end cost ""
        idle
        --------
        user: Look.
        model: look({})
        call_5_0 ok: 1
        model: look({})
        call_10_0 ok: 2
        model: look({})
        call_15_0 ok: 3
        model: look({})
        call_20_0 ok: 4
        user: [The limit on cost of this turn is reached. No tool will run any more. Answer now, in text, with what you have; say what is unfinished.]
        model: "That was dear."
    "#);
}

#[test]
fn time_ends_a_model_call_without_a_closing_one() {
    let mut log = Log::with(|config| config.limits.time_ms_max = Some(10_000));
    log.prompt("Look.");
    log.later(8_000);
    round(&mut log, "look", "1");
    log.arrived = vec![text("So")];
    log.later(2_000);
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait until 10000
        > 8000 ms later
        wait until 10000
        > replied End: look({})
        judge call_5_0
        run call_5_0 look, attempt 1, key s/call_5_0, Pure []
        wait until 10000
        > finished call_5_0 ok: "1"
        near Time: 8000 of 10000
        ask model: round 2, attempt 1, reads 51, writes 8192 at most
        wait until 10000
        > 2000 ms later
        abort OutOfTime
        end time "aborted"
        idle
        --------
        user: Look.
        model: look({})
        call_5_0 ok: 1
        user: [8s of 10s are used in this turn. Finish soon.]
        model: "So"
    "#);
}

#[test]
fn time_ends_a_tool() {
    let mut log = Log::with(|config| config.limits.time_ms_max = Some(10_000));
    log.prompt("Look.");
    log.replied(&[call("rm", "{}"), call("look", "{}")]);
    log.later(10_000);
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait until 10000
        > replied End: rm({}), look({})
        judge call_5_0
        run call_5_0 rm, attempt 1, key s/call_5_0, Once ["destroys"]
        wait until 10000
        > 10000 ms later
        abort OutOfTime
        answer call_5_1 look not_run: "Not run: the limit on time was reached before it."
        end time ""
        idle
        --------
        user: Look.
        model: rm({})
        model: look({})
        call_5_0 timed_out: Failed: the time of this turn was over while it ran, and it was ended.
        call_5_1 not_run: Not run: the limit on time was reached before it.
    "#);
}

#[test]
fn time_is_without_that_in_which_no_process_drove_the_turn() {
    let mut log = Log::with(|config| config.limits.time_ms_max = Some(10_000));
    log.prompt("Look.");
    log.later(4_000);
    log.replied(&[call("look", "{}")]);
    log.dies();
    log.later(5_999);
    log.later(1);
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait until 10000
        > 4000 ms later
        wait until 10000
        > replied End: look({})
        judge call_5_0
        run call_5_0 look, attempt 1, key s/call_5_0, Pure []
        wait until 10000
        > died, recovered with: woken Interrupted
        run call_5_0 look, attempt 2, key s/call_5_0, Pure []
        wait until 1010000
        > 5999 ms later
        wait until 1010000
        > 1 ms later
        abort OutOfTime
        end time ""
        idle
        --------
        user: Look.
        model: look({})
        call_5_0 timed_out: Failed: the time of this turn was over while it ran, and it was ended.
    "#);
}

#[test]
fn calls() {
    let mut log = Log::with(|config| config.limits.calls_max = 5);
    log.prompt("Look.");
    log.replied(&[call("look", "1"), call("look", "{}"), call("look", "{}"), call("look", "{}")]);
    for index in 1..4 {
        log.finished(index, How::Ok, "19");
    }
    log.replied(&[call("look", "{}"), call("look", "{}"), call("look", "{}")]);
    log.finished(0, How::Ok, "20");
    log.finished(1, How::Ok, "21");
    log.replied(&[text("All looked at.")]);
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
        judge call_5_3
        run call_5_3 look, attempt 1, key s/call_5_3, Pure []
        wait
        > finished call_5_1 ok: "19"
        wait
        > finished call_5_2 ok: "19"
        wait
        > finished call_5_3 ok: "19"
        ask model: round 2, attempt 1, reads 65, writes 8192 at most
        wait
        > replied End: look({}), look({}), look({})
        judge call_17_0
        run call_17_0 look, attempt 1, key s/call_17_0, Pure []
        judge call_17_1
        run call_17_1 look, attempt 1, key s/call_17_1, Pure []
        answer call_17_2 look not_run: "Not run: the limit on tool calls was reached before it."
        wait
        > finished call_17_0 ok: "20"
        wait
        > finished call_17_1 ok: "21"
        ask model: round 2, attempt 1, closing for Calls, reads 85, writes 2048 at most
        wait
        > replied End: "All looked at."
        end calls ""
        idle
        --------
        user: Look.
        model: look(1)
        model: look({})
        model: look({})
        model: look({})
        call_5_0 bad_arguments: Not run: the arguments are not a JSON object. Write the call again with valid JSON.
        call_5_1 ok: 19
        call_5_2 ok: 19
        call_5_3 ok: 19
        model: look({})
        model: look({})
        model: look({})
        call_17_0 ok: 20
        call_17_1 ok: 21
        call_17_2 not_run: Not run: the limit on tool calls was reached before it.
        user: [The limit on tool calls of this turn is reached. No tool will run any more. Answer now, in text, with what you have; say what is unfinished.]
        model: "All looked at."
    "#);
}

#[test]
fn all_calls_may_be_used() {
    let mut log = Log::with(|config| config.limits.calls_max = 1);
    log.prompt("Look.");
    round(&mut log, "look", "1");
    log.replied(&[text("1.")]);
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > replied End: look({})
        judge call_5_0
        run call_5_0 look, attempt 1, key s/call_5_0, Pure []
        wait
        > finished call_5_0 ok: "1"
        near Calls: 1 of 1
        ask model: round 2, attempt 1, reads 53, writes 8192 at most
        wait
        > replied End: "1."
        end end ""
        idle
        --------
        user: Look.
        model: look({})
        call_5_0 ok: 1
        user: [1 of 1 tool calls are used in this turn. Finish soon.]
        model: "1."
    "#);
}

#[test]
fn repeats() {
    let mut log = Log::new();
    log.prompt("Look.");
    for _ in 0..5 {
        round(&mut log, "look", "1");
    }
    log.replied(&[text("It stays.")]);
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > replied End: look({})
        judge call_5_0
        run call_5_0 look, attempt 1, key s/call_5_0, Pure []
        wait
        > finished call_5_0 ok: "1"
        ask model: round 2, attempt 1, reads 39, writes 8192 at most
        wait
        > replied End: look({})
        judge call_10_0
        run call_10_0 look, attempt 1, key s/call_10_0, Pure []
        wait
        > finished call_10_0 ok: "1"
        ask model: round 3, attempt 1, reads 41, writes 8192 at most
        wait
        > replied End: look({})
        judge call_15_0
        run call_15_0 look, attempt 1, key s/call_15_0, Pure []
        wait
        > finished call_15_0 ok: "1"
        near Loop: 3 of 5
        ask model: round 4, attempt 1, reads 81, writes 8192 at most
        wait
        > replied End: look({})
        judge call_21_0
        run call_21_0 look, attempt 1, key s/call_21_0, Pure []
        wait
        > finished call_21_0 ok: "1"
        ask model: round 5, attempt 1, reads 82, writes 8192 at most
        wait
        > replied End: look({})
        judge call_26_0
        run call_26_0 look, attempt 1, key s/call_26_0, Pure []
        wait
        > finished call_26_0 ok: "1"
        ask model: round 5, attempt 1, closing for Loop, reads 84, writes 2048 at most
        wait
        > replied End: "It stays."
        end loop ""
        idle
        --------
        user: Look.
        model: look({})
        call_5_0 ok: 1
        model: look({})
        call_10_0 ok: 1
        model: look({})
        call_15_0 ok: 1
        user: [The last rounds repeat themselves: the same calls gave the same results 3 times. Do something else, or say what is missing. At 5 times this turn ends.]
        model: look({})
        call_21_0 ok: 1
        model: look({})
        call_26_0 ok: 1
        user: [The rounds of this turn repeat themselves. No tool will run any more. Answer now, in text, with what you have; say what is unfinished.]
        model: "It stays."
    "#);
}

/// The rounds at which the model was told, and at which the closing call began.
fn repeats_of(results: &[&str], tool: &str) -> (Option<usize>, Option<usize>) {
    let mut log = Log::new();
    log.prompt("Look.");
    let (mut told, mut closed) = (None, None);
    for (count, result) in results.iter().cycle().take(20).enumerate() {
        round(&mut log, tool, result);
        let turn = log.state.turn.as_ref().unwrap();
        if !turn.told.is_empty() {
            told = told.or(Some(count + 1));
        }
        if turn.closing.is_some() {
            closed = closed.or(Some(count + 1));
            break;
        }
    }
    (told, closed)
}

#[test]
fn repeats_of_one_two_and_three_rounds() {
    let table = [
        (vec!["1"], "look", (Some(3), Some(5))),
        (vec!["1", "2"], "look", (Some(6), Some(10))),
        (vec!["1", "2", "3"], "look", (Some(9), Some(15))),
        (vec!["1", "2", "3", "4"], "look", (None, None)),
        (vec!["1"], "poll", (None, None)),
    ];
    for (results, tool, expected) in table {
        assert_eq!(repeats_of(&results, tool), expected, "{results:?} {tool}");
    }
}

#[test]
fn zero_is_zero() {
    let mut log = Log::with(|config| config.limits.rounds_max = 0);
    log.prompt("Look.");
    log.replied(&[call("look", "{}")]);
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, closing for Rounds, reads 37, writes 2048 at most
        wait
        > replied End: look({})
        answer call_5_0 look not_run: "Not run: the limit on rounds was reached before it."
        end rounds ""
        idle
        --------
        user: Look.
        user: [The limit on rounds of this turn is reached. No tool will run any more. Answer now, in text, with what you have; say what is unfinished.]
        model: look({})
        call_5_0 not_run: Not run: the limit on rounds was reached before it.
    "#);

    let mut log = Log::with(|config| config.limits.tokens_max = Some(0));
    log.prompt("Look.");
    log.is(r#"
        > prompt "Look."
        end tokens "nothing is left for a closing answer"
        idle
        --------
        user: Look.
    "#);

    let mut log = Log::with(|config| {
        config.limits.cost_max_nano_usd = Some(0);
        config.model.price = Some(Price { input: 1, output: 1, cache_read: 1, cache_write: 1 });
    });
    log.prompt("Look.");
    log.is(r#"
        > prompt "Look."
        end cost "nothing is left for a closing answer"
        idle
        --------
        user: Look.
    "#);

    let mut log = Log::with(|config| config.limits.time_ms_max = Some(0));
    log.prompt("Look.");
    log.is(r#"
        > prompt "Look."
        end time ""
        idle
        --------
        user: Look.
    "#);

    let mut log = Log::with(|config| config.limits.calls_max = 0);
    log.prompt("Look.");
    log.replied(&[call("look", "{}")]);
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > replied End: look({})
        answer call_5_0 look not_run: "Not run: the limit on tool calls was reached before it."
        ask model: round 1, attempt 1, closing for Calls, reads 53, writes 2048 at most
        wait
        --------
        user: Look.
        model: look({})
        call_5_0 not_run: Not run: the limit on tool calls was reached before it.
        user: [The limit on tool calls of this turn is reached. No tool will run any more. Answer now, in text, with what you have; say what is unfinished.]
    "#);
}

#[test]
fn a_closing_call_past_the_time_is_not_begun() {
    let mut log = Log::with(|config| {
        config.limits.rounds_max = 1;
        config.limits.time_ms_max = Some(1_000);
    });
    log.prompt("Look.");
    log.replied(&[call("look", "{}")]);
    let finished = not_run(&log.state.calls[0], How::Ok, "19");
    log.append(finished.into());
    log.later(1_000);
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait until 1000
        > replied End: look({})
        judge call_5_0
        run call_5_0 look, attempt 1, key s/call_5_0, Pure []
        wait until 1000
        > 1000 ms later
        end rounds ""
        idle
        --------
        user: Look.
        model: look({})
        call_5_0 ok: 19
    "#);
}

#[test]
fn a_raised_limit_is_never_more_than_the_model_can_write() {
    let mut log = Log::with(|config| {
        config.model.output_tokens_max = Some(10_000);
        config.model.window_tokens_max = Some(9_000);
    });
    log.prompt("Tell.");
    log.replied_as(ReplyStop::Length, &[text("Once")]);
    log.is(
        r#"
        > prompt "Tell."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > replied Length: "Once"
        ask model: round 2, attempt 1, reads 62, writes 8938 at most
        wait
        --------
        user: Tell.
        model: "Once"
        user: [Your reply was cut at its limit of 8192 tokens. Go on from there, or answer in fewer words.]
    "#,
    );
}
