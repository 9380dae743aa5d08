//! A tool call that is arriving, and when it counts as whole.

use inspan_core::{
    message::{CallId, ReplyPart, ReplyStop, ToolCall},
    provider::ModelEvent,
};
use serde_json::value::RawValue;

/// A tool call that is arriving.
#[derive(Clone, Debug, Default)]
pub(crate) struct GrowingCall {
    /// The number of the part.
    pub(crate) part: usize,
    /// The provider's identifier.
    pub(crate) provider_id: Option<String>,
    /// The tool.
    pub(crate) name: String,
    /// The arguments so far.
    pub(crate) arguments: String,
    /// Whether it was given out as whole.
    pub(crate) finished: bool,
}

/// What the arguments of a call are so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Nothing: a call without arguments, or one that has just begun.
    Nothing,
    /// The beginning of JSON.
    Beginning,
    /// JSON.
    Whole,
    /// Neither; more of it would not help.
    Nonsense,
}

impl GrowingCall {
    /// Whether the arguments are JSON from the first character to the last.
    pub(crate) fn is_whole(&self) -> bool {
        self.shape() == Shape::Whole
    }

    /// Gives the call out if no end of the reply can change that it is whole. What is not JSON may
    /// be half a call all the same, so it waits for [`settle`].
    pub(crate) fn finish_if_whole(&mut self, out: &mut Vec<ModelEvent>) {
        if self.is_whole() {
            self.finish(out);
        }
    }

    fn shape(&self) -> Shape {
        let text = self.arguments.trim();
        // A long beginning is not read again and again while it grows.
        if text.starts_with('{') && !text.ends_with('}') {
            return Shape::Beginning;
        }
        match serde_json::from_str::<&RawValue>(text) {
            _ if text.is_empty() => Shape::Nothing,
            Ok(_) => Shape::Whole,
            Err(error) if error.is_eof() => Shape::Beginning,
            Err(_) => Shape::Nonsense,
        }
    }

    fn finish(&mut self, out: &mut Vec<ModelEvent>) {
        if self.finished {
            return;
        }
        self.finished = true;
        let arguments = match self.arguments.trim() {
            "" => "{}".to_owned(),
            _ => self.arguments.clone(),
        };
        let call = ToolCall {
            id: CallId::default(),
            provider_id: self.provider_id.clone(),
            name: self.name.clone(),
            arguments,
            complete: true,
        };
        out.push(ModelEvent::PartFinished { part: self.part, content: ReplyPart::Call(call) });
    }
}

/// Gives out the calls of a reply that has ended, and says how it ended. Half a call at the end
/// is not given out: the reply was cut there, whatever the server says, unless it `had_room` for
/// more tokens. Then the model wrote nonsense, and is to hear so.
pub(crate) fn settle<'a>(
    calls: impl IntoIterator<Item = &'a mut GrowingCall>,
    mut stop: ReplyStop,
    had_room: bool,
    out: &mut Vec<ModelEvent>,
) -> ReplyStop {
    let mut calls = calls.into_iter().peekable();
    while let Some(call) = calls.next() {
        let is_last = calls.peek().is_none();
        match call.shape() {
            Shape::Nothing | Shape::Beginning | Shape::Nonsense if is_last && stop.is_cut() => {}
            Shape::Beginning if is_last && !had_room && !call.finished => stop = ReplyStop::Length,
            _ => call.finish(out),
        }
    }
    stop
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arguments given out, and the stop, for calls with these arguments.
    fn settled(arguments: &[&str], stop: ReplyStop, had_room: bool) -> (Vec<String>, ReplyStop) {
        let mut calls: Vec<GrowingCall> = arguments
            .iter()
            .map(|text| GrowingCall { arguments: (*text).to_owned(), ..GrowingCall::default() })
            .collect();
        let mut out = Vec::new();
        let stop = settle(&mut calls, stop, had_room, &mut out);
        let arguments = out.into_iter().map(|event| match event {
            ModelEvent::PartFinished { content: ReplyPart::Call(call), .. } => call.arguments,
            other => format!("{other:?}"),
        });
        (arguments.collect(), stop)
    }

    #[test]
    fn only_whole_calls_are_given_out() {
        use ReplyStop::{End, Length};
        let table: [(&[&str], _, bool, &[&str], _); 10] = [
            (&["{}"], End, false, &["{}"], End),
            (&[""], End, false, &["{}"], End),
            (&[""], Length, false, &[], Length),
            (&["{\"a\":1}", "{\"b\":"], End, false, &["{\"a\":1}"], Length),
            (&["{\"a\":1}", "{\"b\":"], Length, false, &["{\"a\":1}"], Length),
            (&["{\"a\":1}", "{\"b\":"], End, true, &["{\"a\":1}", "{\"b\":"], End),
            (&["{\"a\":", "{}"], End, false, &["{\"a\":", "{}"], End),
            (&["{\"a\":\"\n\"}"], End, false, &["{\"a\":\"\n\"}"], End),
            (&["{\"a\":\"\n}"], Length, false, &[], Length),
            (&["{\"a\":{}"], End, false, &[], Length),
        ];
        for (arguments, stop, had_room, given, ended) in table {
            let expected = (given.iter().map(|&text| text.to_owned()).collect(), ended);
            assert_eq!(settled(arguments, stop, had_room), expected, "{arguments:?}");
        }
    }
}
