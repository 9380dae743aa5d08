//! For tests only: a scripted model, a scripted server, a simulated world.

pub mod model;
pub mod server;
pub mod sim;
