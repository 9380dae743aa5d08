//! A simulated world.
