//! Recordings: the log of a session, played in the model's place through the real loop, gates,
//! tools and store. The log itself is the recording; there is no other form.

mod recorder;
mod recording;
mod replay;
pub mod scripted;

pub use recorder::Recorder;
pub use recording::{Recording, RecordingError};
pub use replay::{Drift, OnDrift, Replay};
