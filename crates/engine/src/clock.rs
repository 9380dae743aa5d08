//! Time and chance, as inputs.

use std::time::{SystemTime, UNIX_EPOCH};

/// The time that entries carry, and the chance that spreads retries. Waiting is tokio's, so that a
/// test can pause it.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970.
    fn now_ms(&self) -> i64;

    /// A number in 0 to 1.
    fn chance(&self) -> f64;
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn chance(&self) -> f64 {
        fastrand::f64()
    }
}
