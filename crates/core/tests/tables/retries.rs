//! What follows from a failed model call.

use inspan_core::{provider::ErrorClass, turn::Phase};

use crate::log::{Log, text};

#[test]
fn it_waits_longer_each_time_and_gives_up() {
    let mut log = Log::with(|config| config.limits.retries_max = 2);
    log.prompt("Look.");
    log.failed(ErrorClass::Overloaded, None);
    log.later(500);
    log.failed(ErrorClass::Stalled, None);
    log.later(1_000);
    log.failed(ErrorClass::Network, None);
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > failed Overloaded
        wait until 500
        > 500 ms later
        ask model: round 1, attempt 2, reads 37, writes 8192 at most
        wait
        > failed Stalled
        wait until 1500
        > 1000 ms later
        ask model: round 1, attempt 3, reads 37, writes 8192 at most
        wait
        > failed Network
        end failed "Network it was"
        idle
        --------
        user: Look.
    "#);
}

#[test]
fn it_waits_as_the_provider_asks_and_a_reply_forgets_the_failures() {
    let mut log = Log::with(|config| config.limits.retries_max = 1);
    log.prompt("Look.");
    log.failed(ErrorClass::RateLimited, Some(7_000));
    log.later(6_999);
    log.later(1);
    log.replied(&[]);
    log.prompt("Once more.");
    log.failed(ErrorClass::RateLimited, Some(7_000));
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > failed RateLimited
        wait until 7000
        > 6999 ms later
        wait until 7000
        > 1 ms later
        ask model: round 1, attempt 2, reads 37, writes 8192 at most
        wait
        > replied End:
        end end ""
        idle
        > prompt "Once more."
        ask model: round 1, attempt 1, reads 40, writes 8192 at most
        wait
        > failed RateLimited
        wait until 14000
        --------
        user: Look.
        model: "[no text]"
        user: Once more.
    "#);
}

#[test]
fn what_would_fail_again_is_not_tried_again() {
    for class in [ErrorClass::Auth, ErrorClass::TooLong, ErrorClass::BadRequest, ErrorClass::Quota]
    {
        let mut log = Log::new();
        log.prompt("Look.");
        log.failed(class, None);
        log.is(&format!(
            "> prompt \"Look.\"
             ask model: round 1, attempt 1, reads 37, writes 8192 at most
             wait
             > failed {class:?}
             end failed \"{class:?} it was\"
             idle
             --------
             user: Look."
        ));
    }
}

#[test]
fn a_quota_parks_the_turn_until_it_is_renewed() {
    let mut log = Log::with(|config| {
        config.limits.rounds_max = 1;
        config.limits.time_ms_max = Some(10_000);
    });
    log.prompt("Look.");
    log.later(4_000);
    log.failed(ErrorClass::Quota, Some(3_600_000));
    log.later(3_600_000);
    log.replied(&[text("19.")]);
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait until 10000
        > 4000 ms later
        wait until 10000
        > failed Quota
        park until Some(3604000): "Quota it was"
        end parked "Quota it was"
        idle until 3604000
        > 3600000 ms later
        woken Unparked
        ask model: round 1, attempt 2, reads 37, writes 8192 at most
        wait until 3610000
        > replied End: "19."
        end end ""
        idle
        --------
        user: Look.
        model: "19."
    "#);
}

#[test]
fn a_long_wait_is_parked_and_a_prompt_begins_anew() {
    let mut log = Log::new();
    log.prompt("Look.");
    log.failed(ErrorClass::RateLimited, Some(300_001));
    log.prompt("Now?");
    log.woken();
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > failed RateLimited
        park until Some(300001): "RateLimited it was"
        end parked "RateLimited it was"
        idle until 300001
        > prompt "Now?"
        ask model: round 1, attempt 1, reads 38, writes 8192 at most
        wait
        > woken
        wait
        --------
        user: Look.
        user: Now?
    "#);
}

#[test]
fn the_time_ends_while_it_waits() {
    let mut log = Log::with(|config| config.limits.time_ms_max = Some(1_000));
    log.prompt("Look.");
    log.failed(ErrorClass::RateLimited, Some(7_000));
    log.later(1_000);
    log.is(r#"
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait until 1000
        > failed RateLimited
        wait until 1000
        > 1000 ms later
        end time "RateLimited it was"
        idle
        --------
        user: Look.
    "#);
}

#[test]
fn at_once_is_no_sooner_than_the_wait_of_our_own() {
    let mut log = Log::new();
    log.prompt("Look.");
    let mut waits = Vec::new();
    for asked_ms in [0, 0, 3_000, 0] {
        log.failed(ErrorClass::RateLimited, Some(asked_ms));
        let failed_ms = log.now_ms;
        let Some(Phase::Failed { failed, .. }) = log.state.turn.as_ref().map(|turn| &turn.phase)
        else {
            panic!("{:?}", log.state.turn)
        };
        let wait_ms = failed.retry_at_ms.unwrap() - failed_ms;
        waits.push(wait_ms);
        log.later(wait_ms);
    }
    assert_eq!(waits, [500, 1_000, 3_000, 4_000]);
}

/// A clock that was set back in the meantime does not make it wait for the old time.
#[test]
fn a_clock_that_jumps_back_costs_no_more_than_the_wait() {
    let mut log = Log::new();
    log.later(3_600_000);
    log.prompt("Look.");
    log.failed(ErrorClass::Overloaded, None);
    log.later(-3_600_000);
    log.is(r#"
        > 3600000 ms later
        idle
        > prompt "Look."
        ask model: round 1, attempt 1, reads 37, writes 8192 at most
        wait
        > failed Overloaded
        wait until 3600500
        > -3600000 ms later
        ask model: round 1, attempt 2, reads 37, writes 8192 at most
        wait
        --------
        user: Look.
    "#);
}
