//! Tools that come, change and go while a session goes on.

use std::{collections::BTreeMap, sync::Arc};

use inspan_core::{
    Entry, State,
    event::{CatalogueChanged, Head, SessionConfigured},
    tool::ToolSpec,
};

use crate::log::Log;

fn tool(name: &str, description: &str) -> Arc<ToolSpec> {
    Arc::new(ToolSpec::new(name, description))
}

fn names(state: &State) -> Vec<(String, String)> {
    let config = state.config.as_deref().unwrap();
    config.tools.iter().map(|tool| (tool.name.clone(), tool.description.clone())).collect()
}

#[test]
fn what_makes_one_list_of_another_is_applied_to_it() {
    let before = [tool("a", "A."), tool("c", "C."), tool("d", "D.")];
    let now = [tool("b", "B."), tool("c", "Other."), tool("d", "D.")];
    let change = CatalogueChanged::between(&before, &now);
    let expected = CatalogueChanged {
        came: vec![tool("b", "B.")],
        changed: vec![tool("c", "Other.")],
        went: vec!["a".to_owned()],
        ..CatalogueChanged::default()
    };
    assert_eq!(change, expected);
    assert!(CatalogueChanged::between(&now, &now).is_empty());

    let mut state = Log::new().state;
    let config = state.config.as_deref().unwrap().clone();
    let apply = |state: &mut State, event: inspan_core::Event| {
        let entry: Entry = state.entry(1, event);
        state.apply(&entry);
    };
    apply(&mut state, SessionConfigured { tools: before.to_vec(), ..config }.into());
    state.allowed = ["a", "c", "d"].map(str::to_owned).into();
    let asks: BTreeMap<_, _> = [("b".to_owned(), "it is new".to_owned())].into();
    apply(&mut state, CatalogueChanged { asks: asks.clone(), ..change }.into());
    let pairs = [("b", "B."), ("c", "Other."), ("d", "D.")];
    assert_eq!(names(&state), pairs.map(|(name, about)| (name.to_owned(), about.to_owned())));
    assert_eq!(state.config.as_deref().unwrap().asks, asks);
    // A yes was for the tool as it was.
    assert_eq!(state.allowed, ["d".to_owned()].into());
}

#[test]
fn without_a_configuration_it_is_nothing() {
    let mut state = State::default();
    let change = CatalogueChanged { came: vec![tool("a", "A.")], ..CatalogueChanged::default() };
    let entry = Entry::next(Head::default(), 1, 0, 0, change.into());
    state.apply(&entry);
    assert_eq!(state, State { head: entry.head(), at_ms: 1, ..State::default() });
}
