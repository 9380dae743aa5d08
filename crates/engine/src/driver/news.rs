//! Tools that came, changed or went: looked at before each round, and part of the log.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::FutureExt;
use inspan_core::{
    event::{CatalogueChanged, RoundStarted},
    store::StoreError,
    tool::Tool,
    words,
};

use super::Driver;
use crate::{catalogue::News, request::Rendered};

impl Driver {
    /// Looks once for each round whether the tools are others now, and records that. False when the
    /// state may have changed meanwhile.
    pub(super) async fn has_known_tools(
        &mut self,
        started: &RoundStarted,
    ) -> Result<bool, StoreError> {
        let round = (self.state.turns, started.round);
        let Some(catalogue) = self.setup.catalogue.as_ref().filter(|_| self.looked != round) else {
            return Ok(true);
        };
        self.looked = round;
        let mut news = catalogue.news();
        // Mostly there are none, and that is known at once.
        let (news, is_same) = match (&mut news).now_or_never() {
            Some(news) => (news, true),
            None => (self.unless_cancelled(news).await?.flatten(), false),
        };
        match news {
            Some(news) => Ok(!self.take_news(news) && is_same),
            None => Ok(is_same),
        }
    }

    /// Takes the tools. True when something was recorded.
    fn take_news(&mut self, news: News) -> bool {
        let News { mut tools, mut found, mut asks, notices } = news;
        // It is the session's own, for results of before, too.
        let is_own = |tool: &&Arc<dyn Tool>| tool.spec().name == words::OPEN_RESULT;
        tools.extend(self.setup.tools.iter().find(is_own).cloned());
        let tools: BTreeMap<String, Arc<dyn Tool>> =
            tools.into_iter().map(|tool| (tool.spec().name.clone(), tool)).collect();
        let now: Vec<_> = tools.values().map(|tool| tool.spec()).collect();
        let before = self.state.config.as_ref().map_or(&[][..], |config| &config.tools);
        let mut change = CatalogueChanged::between(before, &now);
        let is_news =
            |name: &str| change.came.iter().chain(&change.changed).any(|tool| tool.name == name);
        asks.retain(|name, _| is_news(name));
        found.retain(|name, _| is_news(name));
        (change.asks, change.found) = (asks, found);
        let masked = |notice: &String| self.setup.mask.text(notice).into_owned();
        change.notices = notices.iter().map(masked).collect();
        self.tools = Arc::new(tools.into_iter().collect());
        if change.is_empty() && change.notices.is_empty() {
            return false;
        }
        self.rendered.iter_mut().for_each(Rendered::forget_tools);
        self.record(change);
        true
    }
}
