//! Tables of small logs: what is decided after each entry, and what the model reads in the end.
//!
//! A test plays what happens outside (`> …` in its story); the lines between are the actions, in
//! order, until something outside is needed again. Under the line, the messages of the next
//! request.

mod answers;
mod catalogue;
mod limits;
mod log;
mod order;
mod permissions;
mod recovery;
mod repairs;
mod retries;
mod turns;
mod waits;
