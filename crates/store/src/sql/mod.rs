//! Logs in SQL: rows, the writer, the questions. This folder is compiled once for each database,
//! each time with the `dialect` of the module around it, so that there is one text of everything.

pub(super) mod answers;
mod check;
mod lineage;
pub(super) mod lists;
mod log;
pub(super) mod rows;
mod snapshots;
pub(super) mod texts;
pub(super) mod writer;

use super::dialect;

pub(super) use log::Log;
pub(super) use rows::big;
pub(super) use writer::Writer;
