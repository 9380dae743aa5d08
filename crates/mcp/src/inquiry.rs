//! What a server wants to be told by a person in the middle of a call: a form of a few fields, or a
//! visit to a page. Whoever has a person at hand lends [`Inquiries`] to the tools of a session, and
//! shows what comes out at the other end. Nothing of it is kept.

use inspan_schema::Schema;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

/// Inquiries that wait for the person.
const INQUIRIES_WAITING_MAX: usize = 16;
/// Fields of one form.
const FIELDS_MAX: usize = 32;
/// Values that a field offers.
const CHOICES_MAX: usize = 200;
/// Characters of a text of the server that a person is shown.
const WORDS_CHARS_MAX: usize = 4_000;

/// The way to a person who can be asked. A tool finds it in
/// [`Invocation::shared`](inspan_core::tool::Invocation::shared). Clones are the same.
#[derive(Clone, Debug)]
pub struct Inquiries(mpsc::Sender<Inquiry>);

/// A way to a person, and where they find what they are asked.
pub fn inquiries() -> (Inquiries, mpsc::Receiver<Inquiry>) {
    let (to, from) = mpsc::channel(INQUIRIES_WAITING_MAX);
    (Inquiries(to), from)
}

/// What a server wants to be told.
#[derive(Debug)]
pub struct Inquiry {
    /// The server.
    pub server: String,
    /// What it says about it, in its own words.
    pub message: String,
    /// What is wanted.
    pub wants: Wants,
    /// The same as the server sent it.
    pub(crate) params: Value,
    reply: oneshot::Sender<Reply>,
}

/// What is wanted of a person.
#[derive(Debug)]
pub enum Wants {
    /// That they fill in these fields.
    Form(Vec<Field>),
    /// That they do something at this address, which nobody opens for them.
    Visit(String),
}

/// What a person says to an inquiry.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The fields by their names, as [`Field::read`] gave them; none for a visit.
    Given(Map<String, Value>),
    /// No, and the server may go on without.
    Declined,
    /// No, and the server should give up what it does.
    Cancelled,
}

impl Inquiry {
    /// Sends the reply. Whoever asked may be gone.
    pub fn reply(self, reply: Reply) {
        let _ = self.reply.send(reply);
    }

    /// The reply that a client of the protocol gave: the fields as it sent them. What does not fit
    /// counts as no answer.
    pub(crate) fn reply_with(self, action: &str, content: Option<&Value>) {
        let reply = match (action, &self.wants) {
            ("accept", Wants::Form(fields)) => match given(fields, content) {
                Some(given) => Reply::Given(given),
                None => Reply::Cancelled,
            },
            ("accept", Wants::Visit(_)) => Reply::Given(Map::new()),
            ("decline", _) => Reply::Declined,
            _ => Reply::Cancelled,
        };
        self.reply(reply);
    }

    /// Returns when nobody waits for a reply any more.
    pub async fn given_up(&mut self) {
        self.reply.closed().await;
    }
}

/// The fields that were filled in, if all of them fit and none is missing.
fn given(fields: &[Field], content: Option<&Value>) -> Option<Map<String, Value>> {
    let nothing = Map::new();
    let content = content.map_or(Some(&nothing), Value::as_object)?;
    let mut given = Map::new();
    for field in fields {
        match content.get(&field.name) {
            Some(value) => {
                let checked = field.schema.check(json!({ &field.name: value })).ok()?;
                given.extend(checked.as_object().cloned().unwrap_or_default());
            }
            None if field.is_required => return None,
            None => {}
        }
    }
    Some(given)
}

/// A field of a form.
#[derive(Debug)]
pub struct Field {
    /// Its name for the server.
    pub name: String,
    /// Its name for people.
    pub title: String,
    /// What belongs into it; may be empty.
    pub about: String,
    /// Whether it must be filled in.
    pub is_required: bool,
    /// What it takes.
    pub kind: Kind,
    /// What it holds when nothing is filled in.
    pub default: Option<Value>,
    schema: Schema,
}

/// What a field takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// A number.
    Number,
    /// A whole number.
    Whole,
    /// Yes or no.
    YesNo,
    /// One of these.
    One(Vec<Choice>),
    /// Any of these, separated by commas.
    Many(Vec<Choice>),
}

/// A value that a field offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What is sent.
    pub value: String,
    /// What a person reads.
    pub title: String,
}

impl Inquiries {
    /// Asks the person on behalf of `server`, and gives the answer as the protocol has it. `params` are
    /// those of an `elicitation/create`.
    ///
    /// # Errors
    /// Why it can't be asked, or that nobody is there any more.
    pub async fn ask(&self, server: &str, params: &Value) -> Result<Value, String> {
        let (reply, answer) = oneshot::channel();
        let wants = wants(params)?;
        let message = words(params.get("message"));
        let (server, own) = (server.to_owned(), params.clone());
        let inquiry = Inquiry { server, message, wants, params: own, reply };
        let gone = || nobody(params);
        self.0.send(inquiry).await.map_err(|_| gone())?;
        Ok(match answer.await.map_err(|_| gone())? {
            Reply::Given(fields) if is_visit(params) && fields.is_empty() => {
                json!({ "action": "accept" })
            }
            Reply::Given(fields) => json!({ "action": "accept", "content": fields }),
            Reply::Declined => json!({ "action": "decline" }),
            Reply::Cancelled => json!({ "action": "cancel" }),
        })
    }
}

/// That nobody can be asked for it.
pub(crate) fn nobody(params: &Value) -> String {
    let what = match words(params.get("message")) {
        message if message.is_empty() => String::new(),
        message => format!(": {message}"),
    };
    format!("the server wants input from a person, and nobody can be asked{what}")
}

fn is_visit(params: &Value) -> bool {
    params.get("mode").and_then(Value::as_str) == Some("url")
}

/// A text of the server, as much of it as a person is shown.
fn words(text: Option<&Value>) -> String {
    let text = text.and_then(Value::as_str).unwrap_or_default();
    text.chars().take(WORDS_CHARS_MAX).collect()
}

fn wants(params: &Value) -> Result<Wants, String> {
    if is_visit(params) {
        let url = params.get("url").and_then(Value::as_str);
        let is_page = |url: &&str| url.starts_with("https://") || url.starts_with("http://");
        let url = url.filter(is_page).ok_or("the server names no page that could be opened")?;
        return Ok(Wants::Visit(url.to_owned()));
    }
    let nothing = Map::new();
    let schema = params.get("requestedSchema");
    let properties = schema.and_then(|schema| schema.get("properties")?.as_object());
    let properties = properties.unwrap_or(&nothing);
    if properties.len() > FIELDS_MAX {
        let count = properties.len();
        return Err(format!(
            "the server asks for {count} fields, and at most {FIELDS_MAX} are filled in"
        ));
    }
    let required = schema.and_then(|schema| schema.get("required")?.as_array());
    let is_required = |name: &str| {
        required.is_some_and(|names| names.iter().any(|required| required.as_str() == Some(name)))
    };
    let fields = properties.iter().map(|(name, schema)| field(name, schema, is_required(name)));
    Ok(Wants::Form(fields.collect::<Result<_, _>>()?))
}

fn field(name: &str, schema: &Value, is_required: bool) -> Result<Field, String> {
    let wrong = |why: &str| format!("the server asks for `{name}`, {why}");
    let kind = kind(schema).ok_or_else(|| wrong("which is of no kind that a person can type"))?;
    let compiled = Schema::compile(&json!({ "type": "object", "properties": { name: schema } }));
    let title = match words(schema.get("title")) {
        title if title.is_empty() => name.to_owned(),
        title => title,
    };
    let default = schema.get("default").filter(|value| !value.is_null()).cloned();
    Ok(Field {
        name: name.to_owned(),
        title,
        about: words(schema.get("description")),
        is_required,
        kind,
        default,
        schema: compiled.map_err(|why| wrong(&format!("whose schema is wrong: {why}")))?,
    })
}

fn kind(schema: &Value) -> Option<Kind> {
    let kind = match schema.get("type").and_then(Value::as_str) {
        Some("boolean") => Kind::YesNo,
        Some("integer") => Kind::Whole,
        Some("number") => Kind::Number,
        Some("array") => Kind::Many(choices(schema.get("items")?)?),
        Some("string") | None => match choices(schema) {
            Some(choices) => Kind::One(choices),
            None if schema.get("type").is_some() => Kind::Text,
            None => return None,
        },
        Some(_) => return None,
    };
    Some(kind)
}

/// The values of an enumeration in any of its forms: bare, with names beside them, or each with a
/// title of its own.
fn choices(schema: &Value) -> Option<Vec<Choice>> {
    let titled = schema.get("oneOf").or_else(|| schema.get("anyOf")).and_then(Value::as_array);
    let choices: Option<Vec<Choice>> = match titled {
        Some(titled) => {
            let choice = |one: &Value| {
                let value = one.get("const")?.as_str()?.to_owned();
                let title = one.get("title").and_then(Value::as_str).unwrap_or(&value).to_owned();
                Some(Choice { value, title })
            };
            titled.iter().map(choice).collect()
        }
        None => {
            let values = schema.get("enum")?.as_array()?;
            let names = schema.get("enumNames").and_then(Value::as_array);
            let choice = |(at, value): (usize, &Value)| {
                let value = value.as_str()?.to_owned();
                let name = names.and_then(|names| names.get(at)?.as_str());
                let title = name.unwrap_or(&value).to_owned();
                Some(Choice { value, title })
            };
            values.iter().enumerate().map(choice).collect()
        }
    };
    choices.filter(|choices| (1..=CHOICES_MAX).contains(&choices.len()))
}

impl Field {
    /// What a typed line means here. An empty one is the default, or leaves the field out (`None`).
    ///
    /// # Errors
    /// Why it can't be taken, in words for the person.
    pub fn read(&self, line: &str) -> Result<Option<Value>, String> {
        let line = line.trim();
        if line.is_empty() {
            return match &self.default {
                Some(default) => Ok(Some(default.clone())),
                None if self.is_required => Err("it must be filled in".to_owned()),
                None => Ok(None),
            };
        }
        let value = match &self.kind {
            Kind::Text => Value::from(line),
            Kind::Whole => Value::from(line.parse::<i64>().map_err(|_| "write a whole number")?),
            Kind::Number => line
                .parse::<serde_json::Number>()
                .map(Value::Number)
                .map_err(|_| "write a number, such as 3 or 2.5")?,
            Kind::YesNo => match line.to_lowercase().as_str() {
                "y" | "yes" | "true" => true.into(),
                "n" | "no" | "false" => false.into(),
                _ => return Err("write y or n".to_owned()),
            },
            Kind::One(choices) => chosen(line, choices)?.into(),
            Kind::Many(choices) => {
                let words = line.split(',').filter(|word| !word.trim().is_empty());
                let values: Result<Vec<_>, _> = words.map(|word| chosen(word, choices)).collect();
                values?.into()
            }
        };
        let checked = self.schema.check(json!({ &self.name: value }));
        match checked {
            Ok(mut fields) => Ok(fields.get_mut(&self.name).map(Value::take)),
            Err(why) => {
                let why = why.lines().next().unwrap_or_default();
                let place = format!("`/{}`: ", self.name);
                Err(why.strip_prefix(&place).unwrap_or(why).to_owned())
            }
        }
    }
}

/// The value that is meant by itself, by its title, or by its number in the list.
fn chosen(word: &str, choices: &[Choice]) -> Result<String, String> {
    let word = word.trim();
    let named = choices.iter().find(|choice| choice.value == word || choice.title == word);
    let numbered = || choices.get(word.parse::<usize>().ok()?.checked_sub(1)?);
    let found = named.or_else(numbered).map(|choice| choice.value.clone());
    found.ok_or_else(|| format!("`{word}` is none of them: write a number from the list"))
}

#[cfg(test)]
#[path = "tests/inquiry.rs"]
mod tests;
