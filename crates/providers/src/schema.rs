//! The schemas of tools as servers read them. A schema is only ever made wider here, never
//! narrower: each tool checks its arguments itself.

use serde_json::{Map, Value, json};

/// The most parts of one schema after references were replaced: more of them would fill the window.
const PARTS_MAX: usize = 5_000;

/// How deep a schema may be nested; what is deeper is sent as anything at all.
const DEPTH_MAX: usize = 32;

/// Fields that hold a schema for each of their names.
const NAMED: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Fields that hold a list of schemas.
const LISTS: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
/// Fields that hold a schema.
const SINGLE: [&str; 9] = [
    "items",
    "additionalProperties",
    "contains",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
    "unevaluatedProperties",
];

/// The schema of a tool's arguments, such as every server takes it: the top is an object without
/// alternatives, lists say what is in them, and what only older drafts know is said in the words
/// of draft 2020-12. With `plain` there are no references either, and only common words.
///
/// # Errors
/// It can't be sent, in words that follow the tool's name.
pub(crate) fn compiled(schema: &Value, plain: bool) -> Result<Value, String> {
    let mut compile = Compile { root: schema, plain, parts: 0 };
    let Value::Object(fields) = compile.part(schema, &mut Vec::new(), 0)? else {
        return Err("its schema is no object".to_owned());
    };
    let fields = compile.without_alternatives(fields)?;
    match fields.get("type") {
        None => {
            let mut with_type = Map::new();
            with_type.insert("type".to_owned(), "object".into());
            with_type.extend(fields);
            Ok(Value::Object(with_type))
        }
        Some(kind) if kind == "object" => Ok(Value::Object(fields)),
        Some(kind) => Err(format!("its arguments are no object but {kind}")),
    }
}

struct Compile<'a> {
    root: &'a Value,
    plain: bool,
    parts: usize,
}

impl<'a> Compile<'a> {
    /// A schema anywhere in the whole. `open` are the references that lead here.
    fn part(
        &mut self,
        schema: &'a Value,
        open: &mut Vec<&'a str>,
        depth: usize,
    ) -> Result<Value, String> {
        self.parts += 1;
        if self.parts > PARTS_MAX {
            return Err(format!("its schema has more than {PARTS_MAX} parts"));
        }
        let Value::Object(fields) = schema else { return Ok(schema.clone()) };
        if depth > DEPTH_MAX {
            return Ok(json!({}));
        }
        let reference = fields.get("$ref").and_then(Value::as_str).filter(|_| self.plain);
        let mut out = match reference {
            Some(reference) => self.referred(reference, open, depth)?,
            None => Map::new(),
        };
        for (name, value) in fields {
            if let Some((name, value)) = self.field(name, value, fields, open, depth)? {
                out.insert(name, value);
            }
        }
        if self.plain {
            simplify(&mut out);
        }
        if is_list(&out) && !out.contains_key("items") && !out.contains_key("prefixItems") {
            out.insert("items".to_owned(), json!({}));
        }
        Ok(Value::Object(out))
    }

    /// What a reference stands for. One that leads back to itself, or nowhere, is anything at all.
    fn referred(
        &mut self,
        reference: &'a str,
        open: &mut Vec<&'a str>,
        depth: usize,
    ) -> Result<Map<String, Value>, String> {
        let target = reference.strip_prefix('#').and_then(|path| self.root.pointer(path));
        let Some(target) = target.filter(|_| !open.contains(&reference)) else {
            return Ok(Map::new());
        };
        open.push(reference);
        let part = self.part(target, open, depth + 1);
        open.pop();
        match part? {
            Value::Object(fields) => Ok(fields),
            _ => Ok(Map::new()),
        }
    }

    /// A field of a schema as it is sent, if it is.
    fn field(
        &mut self,
        name: &str,
        value: &'a Value,
        fields: &'a Map<String, Value>,
        open: &mut Vec<&'a str>,
        depth: usize,
    ) -> Result<Option<(String, Value)>, String> {
        let of_drafts = ["$schema", "$id", "$comment", "$anchor", "$vocabulary"];
        let of_references = ["$ref", "$defs", "definitions"];
        if of_drafts.contains(&name)
            || (self.plain && of_references.contains(&name))
            || (name == "additionalItems" && fields.get("items").is_some_and(Value::is_array))
        {
            return Ok(None);
        }
        let depth = depth + 1;
        let sent = match (name, value) {
            (name, Value::Object(parts)) if NAMED.contains(&name) => {
                let mut sent = Map::new();
                for (name, part) in parts {
                    sent.insert(name.clone(), self.part(part, open, depth)?);
                }
                (name, Value::Object(sent))
            }
            ("items", Value::Array(parts)) if self.plain => {
                ("items", json!({"anyOf": self.all(parts, open, depth)?}))
            }
            ("items", Value::Array(parts)) => ("prefixItems", self.all(parts, open, depth)?),
            (name, Value::Array(parts)) if LISTS.contains(&name) => {
                (name, self.all(parts, open, depth)?)
            }
            (name, part) if SINGLE.contains(&name) => (name, self.part(part, open, depth)?),
            (name, value) => (name, value.clone()),
        };
        Ok(Some((sent.0.to_owned(), sent.1)))
    }

    fn all(
        &mut self,
        parts: &'a [Value],
        open: &mut Vec<&'a str>,
        depth: usize,
    ) -> Result<Value, String> {
        parts.iter().map(|part| self.part(part, open, depth)).collect()
    }

    /// The top without `anyOf`, `oneOf` and `allOf`, which servers refuse there: the properties of
    /// all alternatives, of which those are required that each of them requires.
    fn without_alternatives(
        &self,
        mut top: Map<String, Value>,
    ) -> Result<Map<String, Value>, String> {
        let mut of_any: Option<Vec<Value>> = None;
        for name in ["allOf", "anyOf", "oneOf"] {
            let Some(Value::Array(parts)) = top.shift_remove(name) else { continue };
            for mut part in parts {
                if let Some(reference) = part["$ref"].as_str() {
                    let target = reference.strip_prefix('#').and_then(|p| self.root.pointer(p));
                    part = target.cloned().unwrap_or_default();
                }
                let Value::Object(part) = part else { continue };
                let required = part.get("required").and_then(Value::as_array).cloned();
                let required = required.unwrap_or_default();
                if name == "allOf" {
                    require(&mut top, required);
                } else {
                    of_any = Some(match of_any {
                        None => required,
                        Some(all) => all.into_iter().filter(|one| required.contains(one)).collect(),
                    });
                }
                add_properties(&mut top, part);
            }
        }
        require(&mut top, of_any.unwrap_or_default());
        Ok(top)
    }
}

fn add_properties(top: &mut Map<String, Value>, mut part: Map<String, Value>) {
    if let Some(Value::Object(more)) = part.remove("properties") {
        let properties = top.entry("properties").or_insert_with(|| json!({}));
        if let Value::Object(properties) = properties {
            for (name, schema) in more {
                properties.entry(name).or_insert(schema);
            }
        }
    }
    // What one alternative forbids another may allow.
    if part.get("additionalProperties") != top.get("additionalProperties") {
        top.shift_remove("additionalProperties");
    }
}

fn require(top: &mut Map<String, Value>, names: Vec<Value>) {
    if names.is_empty() {
        return;
    }
    if let Value::Array(required) = top.entry("required").or_insert_with(|| json!([])) {
        let more: Vec<Value> = names.into_iter().filter(|name| !required.contains(name)).collect();
        required.extend(more);
    }
}

/// Plain words: `anyOf` for `oneOf`, a list of one for `const`, the type beside alternatives
/// within each of them.
fn simplify(fields: &mut Map<String, Value>) {
    if let Some(value) = fields.shift_remove("const") {
        fields.insert("enum".to_owned(), json!([value]));
    }
    if let Some(parts) = fields.shift_remove("oneOf") {
        fields.entry("anyOf").or_insert(parts);
    }
    let kind = fields.get("type").cloned();
    if let (Some(kind), Some(Value::Array(parts))) = (kind, fields.get_mut("anyOf")) {
        for part in parts.iter_mut().filter_map(Value::as_object_mut) {
            part.entry("type").or_insert_with(|| kind.clone());
        }
        // The alternatives of the top are taken away later, and its type stays.
        if kind != "object" {
            fields.shift_remove("type");
        }
    }
}

fn is_list(fields: &Map<String, Value>) -> bool {
    match fields.get("type") {
        Some(Value::String(kind)) => kind == "array",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "array"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_compiled_for_every_server() {
        let table = [
            (json!({}), json!({"type": "object"})),
            (json!({"type": "object"}), json!({"type": "object"})),
            (
                json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
                    "properties": {"a": {"type": "array"}, "b": {"type": ["array", "null"]}}}),
                json!({"type": "object", "properties": {"a": {"type": "array", "items": {}},
                    "b": {"type": ["array", "null"], "items": {}}}}),
            ),
            // https://github.com/kintone/mcp-server/issues/553: a row of older drafts.
            (
                json!({"type": "object", "properties": {"q": {"type": "array",
                    "items": [{"type": "string"}], "additionalItems": {"type": "number"}}}}),
                json!({"type": "object", "properties": {"q": {"type": "array",
                    "prefixItems": [{"type": "string"}]}}}),
            ),
            (
                json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}},
                    "$defs": {"A": {"type": "array"}}}),
                json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}},
                    "$defs": {"A": {"type": "array", "items": {}}}}),
            ),
            (
                json!({"oneOf": [
                    {"properties": {"a": {}, "c": {"type": "string"}}, "required": ["a", "c"]},
                    {"properties": {"b": {}, "c": {}}, "required": ["b", "c"]}]}),
                json!({"type": "object", "properties": {"a": {}, "c": {"type": "string"}, "b": {}},
                    "required": ["c"]}),
            ),
            (
                json!({"type": "object", "required": ["x"], "allOf": [{"$ref": "#/definitions/P"}],
                    "definitions": {"P": {"properties": {"p": {}}, "required": ["p"]}}}),
                json!({"type": "object", "required": ["x", "p"],
                    "definitions": {"P": {"properties": {"p": {}}, "required": ["p"]}},
                    "properties": {"p": {}}}),
            ),
        ];
        for (schema, expected) in table {
            let compiled = compiled(&schema, false).map(|schema| schema.to_string());
            assert_eq!(compiled, Ok(expected.to_string()), "{schema}");
        }
    }

    #[test]
    fn plain_schemas_have_no_references() {
        let table = [
            (
                json!({"type": "object", "properties": {
                    "a": {"$ref": "#/$defs/A", "description": "Mine"}},
                    "$defs": {"A": {"description": "Theirs", "type": "string"}}}),
                json!({"type": "object",
                    "properties": {"a": {"description": "Mine", "type": "string"}}}),
            ),
            // A tree: it goes on as anything at all.
            (
                json!({"type": "object", "properties": {"t": {"$ref": "#/$defs/T"}},
                    "$defs": {"T": {"type": "object", "properties": {"t": {"$ref": "#/$defs/T"}}}}}),
                json!({"type": "object",
                    "properties": {"t": {"type": "object", "properties": {"t": {}}}}}),
            ),
            (
                json!({"type": "object", "properties": {"a": {"$ref": "https://here/x"}}}),
                json!({"type": "object", "properties": {"a": {}}}),
            ),
            (
                json!({"type": "object", "properties": {
                    "a": {"type": "string", "oneOf": [{"const": "x"}, {"pattern": "^y"}]},
                    "b": {"anyOf": [{"type": "number"}, {"type": "null"}]}}}),
                json!({"type": "object", "properties": {
                    "a": {"anyOf": [{"enum": ["x"], "type": "string"},
                        {"pattern": "^y", "type": "string"}]},
                    "b": {"anyOf": [{"type": "number"}, {"type": "null"}]}}}),
            ),
            (
                json!({"type": "object", "properties": {
                    "q": {"type": "array", "items": [{"type": "string"}, {"type": "number"}]}}}),
                json!({"type": "object", "properties": {"q": {"type": "array",
                    "items": {"anyOf": [{"type": "string"}, {"type": "number"}]}}}}),
            ),
        ];
        for (schema, expected) in table {
            let compiled = compiled(&schema, true).map(|schema| schema.to_string());
            assert_eq!(compiled, Ok(expected.to_string()), "{schema}");
        }
    }

    #[test]
    fn what_cant_be_sent_is_told() {
        let doubling = |n: usize| {
            let step = |n: usize| {
                let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
                (format!("d{n}"), json!({"properties": {"a": next, "b": next}}))
            };
            let defs: Map<String, Value> = (0..n).map(step).collect();
            json!({"type": "object", "properties": {"d": {"$ref": "#/$defs/d0"}}, "$defs": defs})
        };
        let table = [
            (json!(true), "its schema is no object"),
            (json!({"type": "string"}), "its arguments are no object but \"string\""),
            (doubling(30), "its schema has more than 5000 parts"),
        ];
        for (schema, why) in table {
            assert_eq!(compiled(&schema, true), Err(why.to_owned()));
        }
        assert!(compiled(&doubling(30), false).is_ok());
        let mut deep = json!({"type": "object"});
        for _ in 0..100 {
            deep = json!({"type": "object", "properties": {"a": deep}});
        }
        let depth = compiled(&deep, false).map(|schema| inspan_core::arguments::depth(&schema));
        // Each level of a schema is two of JSON.
        assert_eq!(depth, Ok(2 * DEPTH_MAX + 3));
    }
}
