//! What must be true of every projection, whatever the log: the rules that all providers share.

use std::collections::HashSet;

use inspan_core::{
    message::{CallId, Content, ReplyPart},
    prompt::{Message, Said, UserMessage},
    tool::ToolSpec,
};

/// Checks the messages of one request as they come. Sealed messages are taken with
/// [`Rules::take`]; the open one at the end is looked at with [`Rules::check`] and forgotten.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    messages: usize,
    ids: HashSet<CallId>,
    unanswered: Vec<CallId>,
}

impl Rules {
    /// Checks all messages of a request that `issuer` is to read.
    ///
    /// # Errors
    /// The first rule that is broken, and where.
    pub fn check_all<'a>(
        messages: impl IntoIterator<Item = &'a Message>,
        issuer: &str,
    ) -> Result<(), String> {
        let mut rules = Self::default();
        messages.into_iter().try_for_each(|message| rules.take(message, issuer))?;
        rules.finish()
    }

    /// Checks the next message, which will never change.
    ///
    /// # Errors
    /// The rule that is broken, and where.
    pub fn take(&mut self, message: &Message, issuer: &str) -> Result<(), String> {
        self.check(message, issuer)?;
        self.messages += 1;
        self.unanswered.clear();
        if let Message::Assistant(reply) = message {
            for call in reply.calls() {
                self.unanswered.push(call.id.clone());
                if !self.ids.insert(call.id.clone()) {
                    return Err(format!("message {}: {} comes twice", self.messages, call.id));
                }
            }
        }
        Ok(())
    }

    /// Checks a message at the next place, and forgets it.
    ///
    /// # Errors
    /// The rule that is broken, and where.
    pub fn check(&self, message: &Message, issuer: &str) -> Result<(), String> {
        let checked = match message {
            Message::User(user) => self.check_user(user),
            Message::Assistant(reply) => self.check_reply(reply, issuer),
        };
        checked.map_err(|why| format!("message {}: {why}", self.messages))
    }

    /// Checks that the messages taken are a whole request.
    ///
    /// # Errors
    /// The rule that is broken.
    pub fn finish(&self) -> Result<(), String> {
        match (self.messages, self.unanswered.first()) {
            (0, _) => Err("there is no message".to_owned()),
            (_, Some(call)) => Err(format!("{call} is not answered")),
            (_, None) => Ok(()),
        }
    }

    fn check_user(&self, user: &UserMessage) -> Result<(), String> {
        let answered: Vec<&CallId> = user.results.iter().map(|result| &result.call).collect();
        if !answered.iter().copied().eq(&self.unanswered) {
            return Err(format!("answers {answered:?}, asked were {:?}", self.unanswered));
        }
        if user.results.is_empty() && user.content.is_empty() {
            return Err("the user's message is empty".to_owned());
        }
        for result in &user.results {
            if result.result.content.is_empty() {
                return Err(format!("the result of {} is empty", result.call));
            }
            result.result.content.iter().try_for_each(not_blank)?;
        }
        user.content.iter().try_for_each(not_blank)
    }

    fn check_reply(&self, reply: &Said, issuer: &str) -> Result<(), String> {
        if self.messages == 0 {
            return Err("the first message is not the user's".to_owned());
        }
        if let Some(call) = self.unanswered.first() {
            return Err(format!("{call} is not answered in the message after it"));
        }
        for part in &reply.parts {
            match part {
                ReplyPart::Text { text } if text.trim().is_empty() => {
                    return Err("a blank text".to_owned());
                }
                ReplyPart::Reasoning(_) if *reply.issuer != *issuer => {
                    return Err(format!("reasoning of {} goes to {issuer}", reply.issuer));
                }
                ReplyPart::Reasoning(reasoning) if reply.stop.is_cut() && !reasoning.signed => {
                    return Err("unsigned reasoning of a cut reply".to_owned());
                }
                ReplyPart::Call(call) if !call.complete => {
                    return Err(format!("half a call: {}", call.id));
                }
                ReplyPart::Call(call) if call.name != ToolSpec::sendable_name(&call.name) => {
                    return Err(format!("the name {:?}", call.name));
                }
                ReplyPart::Text { .. } | ReplyPart::Reasoning(_) | ReplyPart::Call(_) => {}
            }
        }
        match reply.parts.last() {
            None => Err("the reply is empty".to_owned()),
            Some(ReplyPart::Reasoning(_)) => Err("the reply ends with reasoning".to_owned()),
            Some(ReplyPart::Text { .. } | ReplyPart::Call(_)) => Ok(()),
        }
    }
}

fn not_blank(content: &Content) -> Result<(), String> {
    match content {
        Content::Text { text } if text.trim().is_empty() => Err("a blank text".to_owned()),
        Content::Text { .. } | Content::Image(_) => Ok(()),
    }
}
