//! .
pub struct State;
