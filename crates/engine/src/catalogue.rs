//! Tools that come and go while a session runs.

use std::{collections::BTreeMap, sync::Arc};

use inspan_core::{gate::BoxFuture, tool::Tool};

/// Where the tools of a session come from, if that may change while it goes on.
pub trait Catalogue: Send + Sync {
    /// The tools as they are from here on, when that is news. Asked before each round, which waits
    /// for it: it must give up by itself. An answer is given once.
    fn news(&self) -> BoxFuture<'static, Option<News>>;
}

/// The tools of a session as they are from here on.
#[derive(Clone, Default)]
pub struct News {
    /// All of them, each name once.
    pub tools: Vec<Arc<dyn Tool>>,
    /// Those that the model is not told of before it finds them, and where each comes from: see
    /// [`inspan_core::found`].
    pub found: BTreeMap<String, String>,
    /// Why a person is asked before a call, for those for which that is so. The gate that asks is
    /// whoever's the tools are.
    pub asks: BTreeMap<String, String>,
    /// What a person should know of it.
    pub notices: Vec<String>,
}
