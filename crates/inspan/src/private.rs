//! What the code that `#[tool]` writes stands on. Not part of the interface.

use std::any::{Any, TypeId};

use inspan_core::{gate::BoxFuture, message::ToolResult, tool::ToolError, words};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, json};

pub use inspan_core::{
    effects::{Effects, Repeat},
    tool::{Invocation, Tool, ToolSpec},
};
pub use serde_json::Value;
pub use std::{
    boxed::Box,
    string::String,
    sync::{Arc, LazyLock},
};

use crate::{context::Context, schema, schema::Schemas};

/// Mistakes told at once about one call's arguments.
const MISTAKES_TOLD_MAX: usize = 5;

/// The future of a run.
pub type Run = BoxFuture<'static, Result<ToolResult, ToolError>>;

/// What a model can write as an argument.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be an argument of a tool",
    label = "the model can't be told what to write here",
    note = "derive `serde::Deserialize` and `schemars::JsonSchema` for `{Self}`",
    note = "what the model does not write (a pool, a client) comes from a `&Context` parameter"
)]
pub trait Argument: Sized {
    /// Reads it, with the path of what is wrong.
    fn read(value: Value) -> Result<Self, String>;
    /// Its schema.
    fn schema(schemas: &mut Schemas) -> Value;
}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + schemars::JsonSchema> Argument for T {
    fn read(value: Value) -> Result<Self, String> {
        schema::read(value)
    }

    fn schema(schemas: &mut Schemas) -> Value {
        schemas.of::<T>()
    }
}

/// An argument of a tool: its name, what the model is told of it, and how it is read.
pub struct Parameter<T> {
    name: &'static str,
    description: &'static str,
    schema: fn(&mut Schemas) -> Value,
    read: fn(Value) -> Result<T, String>,
    /// The value of one that is left out; `None` when it must not be.
    missing: Option<fn() -> T>,
    default: Option<Value>,
}

/// An argument that must be there.
pub fn required<T: Argument>(name: &'static str, description: &'static str) -> Parameter<T> {
    let (schema, read) = (T::schema, T::read);
    Parameter { name, description, schema, read, missing: None, default: None }
}

/// An argument that may be left out.
pub fn optional<T: Argument>(
    name: &'static str,
    description: &'static str,
) -> Parameter<Option<T>> {
    let read = |value| T::read(value).map(Some);
    let missing: fn() -> Option<T> = || None;
    let schema = T::schema;
    Parameter { name, description, schema, read, missing: Some(missing), default: None }
}

/// An argument that has a value when it is left out.
pub fn defaulted<T: Argument + Serialize>(
    name: &'static str,
    description: &'static str,
    missing: fn() -> T,
) -> Parameter<T> {
    let default = serde_json::to_value(missing()).ok();
    let (schema, read) = (T::schema, T::read);
    Parameter { name, description, schema, read, missing: Some(missing), default }
}

impl<T> Parameter<T> {
    /// Takes the argument out of checked ones.
    pub fn take(&self, arguments: &mut Value) -> Result<T, ToolError> {
        let found = arguments.as_object_mut().and_then(|fields| fields.shift_remove(self.name));
        self.value(found).map_err(|why| ToolError::new(words::bad_arguments(&why)))
    }

    fn value(&self, found: Option<Value>) -> Result<T, String> {
        match (found, self.missing) {
            (None | Some(Value::Null), Some(missing)) => Ok(missing()),
            (None, None) => Err(format!("/{}: is missing", self.name)),
            (Some(value), _) => (self.read)(value).map_err(|why| format!("/{}{why}", self.name)),
        }
    }
}

/// A parameter without its type.
pub trait Shape {
    /// Its name.
    fn name(&self) -> &'static str;
    /// Whether it must be there.
    fn is_needed(&self) -> bool;
    /// Its schema, with its description.
    fn schema(&self, schemas: &mut Schemas) -> Value;
    /// The argument as it will be read; `None` when it counts as left out.
    fn check(&self, found: Option<Value>) -> Result<Option<Value>, String>;
}

impl<T> Shape for Parameter<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn is_needed(&self) -> bool {
        self.missing.is_none()
    }

    fn schema(&self, schemas: &mut Schemas) -> Value {
        let schema = (self.schema)(schemas);
        let mut fields = match schema {
            Value::Object(fields) => fields,
            // `true`: anything.
            _ => Map::new(),
        };
        if !self.description.is_empty() {
            fields.insert("description".to_owned(), self.description.into());
        }
        if let Some(default) = &self.default {
            fields.insert("default".to_owned(), default.clone());
        }
        Value::Object(fields)
    }

    fn check(&self, found: Option<Value>) -> Result<Option<Value>, String> {
        let Err(why) = self.value(found.clone()) else {
            let is_left_out = self.missing.is_some() && found == Some(Value::Null);
            return Ok(found.filter(|_| !is_left_out));
        };
        // What was written in another form and means one thing only: "3" for 3, 3.0 for 3.
        let meant = found.as_ref().and_then(schema::other_form);
        match meant.filter(|meant| self.value(Some(meant.clone())).is_ok()) {
            Some(meant) => Ok(Some(meant)),
            None => Err(why),
        }
    }
}

/// The schema of a tool's arguments.
pub fn input_schema(shapes: &[&dyn Shape]) -> Value {
    let mut schemas = Schemas::default();
    let properties: Map<String, Value> =
        shapes.iter().map(|shape| (shape.name().to_owned(), shape.schema(&mut schemas))).collect();
    let needed: Vec<_> =
        shapes.iter().filter(|shape| shape.is_needed()).map(|shape| shape.name()).collect();
    let mut input = Map::new();
    input.insert("type".to_owned(), "object".into());
    input.insert("properties".to_owned(), Value::Object(properties));
    if !needed.is_empty() {
        input.insert("required".to_owned(), json!(needed));
    }
    input.insert("additionalProperties".to_owned(), false.into());
    schemas.add_definitions(&mut input);
    Value::Object(input)
}

/// Checks the arguments of a call, and gives them as they will be read.
pub fn check(arguments: Value, shapes: &[&dyn Shape]) -> Result<Value, String> {
    let Value::Object(mut fields) = arguments else {
        return Err("the arguments must be an object".to_owned());
    };
    let mut checked = Map::new();
    let mut mistakes = Vec::new();
    for shape in shapes {
        match shape.check(fields.shift_remove(shape.name())) {
            Ok(Some(value)) => drop(checked.insert(shape.name().to_owned(), value)),
            Ok(None) => {}
            Err(why) => mistakes.push(why),
        }
    }
    let names: Vec<_> = shapes.iter().map(|shape| shape.name()).collect();
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let unknown = |name: &String| format!("/{name}: there is no such argument; known: {known}");
    mistakes.extend(fields.keys().map(unknown));
    mistakes.truncate(MISTAKES_TOLD_MAX);
    if mistakes.is_empty() { Ok(Value::Object(checked)) } else { Err(mistakes.join("\n")) }
}

/// What a call runs with.
pub fn begin(call: Invocation) -> (Context, Value) {
    let Invocation { session, call, key, attempt, arguments, shared } = call;
    (Context::new(session, call, key, attempt, shared), arguments)
}

/// What a tool can give.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the result of a tool",
    label = "the model can't read this",
    note = "give a `String`, a `ToolResult`, or derive `serde::Serialize` for `{Self}`"
)]
pub trait Output {
    /// What the model reads.
    fn result(self) -> Result<ToolResult, ToolError>;
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + 'static> Output for T {
    fn result(self) -> Result<ToolResult, ToolError> {
        if let Some(result) = (&self as &dyn Any).downcast_ref::<ToolResult>() {
            return Ok(result.clone());
        }
        if TypeId::of::<T>() == TypeId::of::<()>() {
            return Ok(ToolResult::default());
        }
        match serde_json::to_value(&self) {
            Ok(Value::String(text)) => Ok(ToolResult::text(text)),
            Ok(value) => Ok(ToolResult::text(value.to_string())),
            Err(why) => Err(ToolError::new(format!("its result can't be written as JSON: {why}"))),
        }
    }
}

/// Why a tool can fail.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the error of a tool",
    label = "the model can't read this",
    note = "give a `ToolError` (`?` makes one of what implements `std::error::Error`), or implement `Display` for `{Self}`"
)]
pub trait Failure {
    /// What the model reads.
    fn error(self) -> ToolError;
}

#[diagnostic::do_not_recommend]
impl<E: std::fmt::Display + 'static> Failure for E {
    fn error(self) -> ToolError {
        match (&self as &dyn Any).downcast_ref::<ToolError>() {
            Some(error) => error.clone(),
            // The other form has the causes, for the errors that know one.
            None => ToolError::new(format!("{self:#}")),
        }
    }
}

/// The end of a function that can fail.
pub fn from_result<T: Output, E: Failure>(outcome: Result<T, E>) -> Result<ToolResult, ToolError> {
    outcome.map_err(Failure::error).and_then(Output::result)
}

/// Told of a value that is a `Result`, by whatever name: of a reference, this method is nearer than
/// that of [`ValueKind`].
pub trait ResultKind {
    /// What ends with it.
    fn __inspan_end(&self) -> ResultEnd {
        ResultEnd
    }
}

impl<T, E> ResultKind for Result<T, E> {}

/// Told of every other value.
pub trait ValueKind {
    /// What ends with it.
    fn __inspan_end(&self) -> ValueEnd {
        ValueEnd
    }
}

impl<T> ValueKind for &T {}

/// The end of a function that can fail.
pub struct ResultEnd;

impl ResultEnd {
    /// What the model reads.
    pub fn finish<T: Output, E: Failure>(
        self,
        outcome: Result<T, E>,
    ) -> Result<ToolResult, ToolError> {
        from_result(outcome)
    }
}

/// The end of a function that can't fail.
pub struct ValueEnd;

impl ValueEnd {
    /// What the model reads.
    pub fn finish(self, outcome: impl Output) -> Result<ToolResult, ToolError> {
        outcome.result()
    }
}
