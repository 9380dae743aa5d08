//! Checks arguments and answers against JSON Schemas, and says what is wrong in words for the
//! model that wrote them.
//!
//! A crate of its own because the library below it is heavy. Nothing is ever fetched: a schema
//! that refers to an address or a file is refused.

mod coerce;
mod explain;

use jsonschema::Validator;
use serde_json::Value;

/// A schema, ready to check values.
#[derive(Debug)]
pub struct Schema {
    schema: Value,
    validator: Validator,
}

impl Schema {
    /// Reads a schema. Its draft is the one that `$schema` names, else 2020-12.
    ///
    /// # Errors
    /// What is wrong with the schema, and where in it; so too for a reference to anything outside
    /// the schema.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        let built = jsonschema::options().offline().build(schema);
        let validator = built.map_err(|error| explain::schema(&error))?;
        Ok(Self { schema: schema.clone(), validator })
    }

    /// Checks `value`, and gives it back. A string that does not fit, but is the JSON text of a
    /// number, a boolean, `null`, an array or an object that is wanted in its place, becomes that,
    /// if nothing is lost (see `coerce`). Nothing ever becomes a string.
    ///
    /// # Errors
    /// A line for each place that does not fit, a few at most: its path, what was found there and
    /// what is expected.
    pub fn check(&self, value: Value) -> Result<Value, String> {
        if self.validator.is_valid(&value) {
            return Ok(value);
        }
        let value = coerce::coerce(&self.validator, value);
        if self.validator.is_valid(&value) {
            return Ok(value);
        }
        Err(explain::violations(&self.schema, self.validator.iter_errors(&value)))
    }
}
