//! For tests only: a scripted model, a scripted server, a simulated world.

pub use inspan_evals::scripted as model;

pub mod rules;
pub mod server;
pub mod sim;
pub mod snapshots;
pub mod wire;
