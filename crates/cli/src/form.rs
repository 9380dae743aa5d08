//! What a server of tools wants to be told, as the person at the terminal fills it in.

use inspan_mcp::{Field, Inquiry, Kind, Reply, Wants};
use serde_json::{Map, Value};

use crate::out::{BOLD, DIM, NOTE, Out, styled};

/// Characters of a line that a server fills, such as the name of a field.
const LINE_CHARS_MAX: usize = 2_000;

/// An inquiry on its way to its reply.
pub(crate) struct Form {
    inquiry: Inquiry,
    /// The field that is asked for; `None` before the person agreed to fill them in.
    at: Option<usize>,
    given: Map<String, Value>,
}

impl Form {
    pub(crate) fn new(inquiry: Inquiry) -> Self {
        Self { inquiry, at: None, given: Map::new() }
    }

    /// Shows who asks what. What a server says is no word of Inspan's, and is shown as its own.
    pub(crate) fn show(&self, out: &Out) {
        let server = out.line(&self.inquiry.server, LINE_CHARS_MAX);
        let head = format!("the MCP server `{server}` asks:");
        out.progress(&format!(
            "{} {}\n  {}\n",
            styled(NOTE, "?"),
            styled(BOLD, &head),
            out.shown(&self.inquiry.message).replace('\n', "\n  "),
        ));
        match &self.inquiry.wants {
            Wants::Form(fields) => {
                let titles: Vec<String> =
                    fields.iter().map(|field| out.line(&field.title, LINE_CHARS_MAX)).collect();
                if !titles.is_empty() {
                    let about = format!("it wants: {}", titles.join(", "));
                    out.progress(&format!("  {}\n", styled(DIM, &about)));
                }
            }
            Wants::Visit(url) => {
                out.progress(&format!("  open {}\n", out.line(url, LINE_CHARS_MAX)));
            }
        }
        self.ask(out);
    }

    /// Returns when nobody waits for it any more.
    pub(crate) async fn given_up(&mut self) {
        self.inquiry.given_up().await;
    }

    /// Takes a typed line. Gives the reply when that was the last one.
    pub(crate) fn take(&mut self, line: &str, out: &Out) -> Option<Reply> {
        let Some(at) = self.at else {
            match line.trim().to_lowercase().as_str() {
                "y" | "yes" => self.at = Some(0),
                "n" | "no" => return Some(Reply::Declined),
                "c" | "cancel" => return Some(Reply::Cancelled),
                _ => {}
            }
            return self.next(out);
        };
        if let Some(field) = self.field(at) {
            match field.read(line) {
                Ok(value) => {
                    let name = field.name.clone();
                    self.given.extend(value.map(|value| (name, value)));
                    self.at = Some(at + 1);
                }
                Err(why) => out.progress(&format!("  {}\n", styled(NOTE, &out.shown(&why)))),
            }
        }
        self.next(out)
    }

    /// Sends the reply.
    pub(crate) fn reply(self, reply: Reply) {
        self.inquiry.reply(reply);
    }

    /// Asks for what is still open; if that is nothing, gives the reply.
    fn next(&mut self, out: &Out) -> Option<Reply> {
        match self.at {
            Some(at) if self.field(at).is_none() => {
                Some(Reply::Given(std::mem::take(&mut self.given)))
            }
            Some(_) | None => {
                self.ask(out);
                None
            }
        }
    }

    fn ask(&self, out: &Out) {
        let Some(field) = self.at.and_then(|at| self.field(at)) else {
            let yes = match &self.inquiry.wants {
                Wants::Form(_) => "y answers",
                Wants::Visit(_) => "y when it is done",
            };
            out.progress(&format!("  {yes}, n does not, c gives the call up: "));
            return;
        };
        let about = match field.about.as_str() {
            "" => String::new(),
            about => format!(" {}", styled(DIM, &out.line(about, LINE_CHARS_MAX))),
        };
        let mut text = format!("  {}{about}\n", out.line(&field.title, LINE_CHARS_MAX));
        if let Kind::One(choices) | Kind::Many(choices) = &field.kind {
            for (at, choice) in choices.iter().enumerate() {
                text += &format!("    {} {}\n", at + 1, out.line(&choice.title, LINE_CHARS_MAX));
            }
        }
        out.progress(&format!("{text}    {}: ", hint(field, out)));
    }

    fn field(&self, at: usize) -> Option<&Field> {
        match &self.inquiry.wants {
            Wants::Form(fields) => fields.get(at),
            Wants::Visit(_) => None,
        }
    }
}

/// What can be typed, and what an empty line means.
fn hint(field: &Field, out: &Out) -> String {
    let what = match &field.kind {
        Kind::Text => "a text",
        Kind::Number => "a number",
        Kind::Whole => "a whole number",
        Kind::YesNo => "y or n",
        Kind::One(_) => "one of them",
        Kind::Many(_) => "any of them, with commas",
    };
    let empty = match &field.default {
        Some(Value::String(text)) => format!(" [{}]", out.line(text, LINE_CHARS_MAX)),
        Some(Value::Bool(yes)) => format!(" [{}]", if *yes { "y" } else { "n" }),
        Some(Value::Array(values)) => {
            let values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
            format!(" [{}]", out.line(&values.join(", "), LINE_CHARS_MAX))
        }
        Some(value) => format!(" [{}]", out.shown(&value.to_string())),
        None if field.is_required => String::new(),
        None => " [leave out]".to_owned(),
    };
    format!("{what}{empty}")
}
