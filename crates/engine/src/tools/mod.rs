//! The tools that are part of Inspan, and those that are programs of the person's own.
//!
//! A built-in tool exists for an agent only where its folder lists it. With the feature `command`,
//! any program can be a tool.

pub(crate) mod cap;
#[cfg(feature = "command")]
pub mod command;
pub mod echo;
pub mod find;
pub mod open_result;
#[cfg(feature = "command")]
mod process;
mod progress;
#[cfg(feature = "command")]
mod reap;

use std::sync::Arc;

use inspan_core::tool::Tool;

pub use progress::Progress;

/// The names of the tools that are part of Inspan, sorted.
pub const BUILTIN_NAMES: &[&str] = &["echo"];

/// The built-in tool with this name.
pub fn builtin(name: &str) -> Option<Arc<dyn Tool>> {
    match name {
        "echo" => Some(Arc::new(echo::Echo::default())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builtin_is_found_under_its_name() {
        for name in BUILTIN_NAMES {
            assert_eq!(builtin(name).map(|tool| tool.spec().name.clone()).as_deref(), Some(*name));
        }
        assert!(builtin("weather").is_none());
    }
}
