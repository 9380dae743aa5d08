//! Schemas of types, and values that are read by them with the path of what is wrong.

use schemars::{
    JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, transform::transform_subschemas,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_path_to_error::{Path, Segment};

/// Makes schemas as models read them best: everything in its place, without identifiers, titles
/// and formats that only a program needs.
pub struct Schemas(SchemaGenerator);

impl Default for Schemas {
    fn default() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        });
        Self(settings.into_generator())
    }
}

impl Schemas {
    /// The schema of a type.
    pub(crate) fn of<T: JsonSchema>(&mut self) -> Value {
        let mut schema = self.0.subschema_for::<T>();
        simplify(&mut schema);
        schema.to_value()
    }

    /// Adds what could not stand in its place: types that hold themselves.
    pub(crate) fn add_definitions(&mut self, schema: &mut Map<String, Value>) {
        let mut definitions = self.0.take_definitions(true);
        if definitions.is_empty() {
            return;
        }
        for value in definitions.values_mut() {
            if let Ok(schema) = <&mut Schema>::try_from(value) {
                simplify(schema);
            }
        }
        schema.insert("$defs".to_owned(), Value::Object(definitions));
    }
}

/// The whole schema of a type.
pub(crate) fn of<T: JsonSchema>() -> Value {
    let mut schemas = Schemas::default();
    let mut schema = schemas.of::<T>();
    if let Value::Object(fields) = &mut schema {
        schemas.add_definitions(fields);
    }
    schema
}

/// Leaves out the widths of numbers (`uint32`): a model knows no such thing, and some providers
/// refuse formats that they don't know.
fn simplify(schema: &mut Schema) {
    let is_width = |format: &Value| {
        let names = ["int", "uint", "float", "double"];
        format.as_str().is_some_and(|format| names.iter().any(|name| format.starts_with(name)))
    };
    if schema.get("format").is_some_and(is_width)
        && let Some(fields) = schema.as_object_mut()
    {
        fields.shift_remove("format");
    }
    transform_subschemas(&mut simplify, schema);
}

/// Reads a value. The error begins with the path, as what follows the path of the value itself:
/// `/city: invalid type: …`, or `: …` for the value as a whole.
pub(crate) fn read<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_path_to_error::deserialize(value)
        .map_err(|error| format!("{}: {}", pointer(error.path()), error.inner()))
}

fn pointer(path: &Path) -> String {
    let step = |segment: &Segment| match segment {
        Segment::Seq { index } => format!("/{index}"),
        Segment::Map { key } => format!("/{key}"),
        Segment::Enum { variant } => format!("/{variant}"),
        Segment::Unknown => "/?".to_owned(),
    };
    path.iter().map(step).collect()
}

/// The one other form that a model may have meant without loss: JSON in a string, a whole number
/// with a fraction of zero.
pub(crate) fn other_form(value: &Value) -> Option<Value> {
    match value {
        Value::String(text) => serde_json::from_str(text).ok(),
        Value::Number(number) => {
            let float = number.as_f64().filter(|_| number.is_f64())?;
            // Beyond this, a float no longer tells neighbouring whole numbers apart.
            let is_whole = float.fract() == 0.0 && float.abs() < 2_f64.powi(53);
            is_whole.then(|| Value::from(float as i64))
        }
        _ => None,
    }
}
