//! .
pub enum Action {}
pub struct Policy;
pub fn decide() {}
