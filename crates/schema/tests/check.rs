//! What is checked, what is changed, and every word that is said, as tables.

use inspan_schema::Schema;
use serde_json::{Value, json};

fn check(schema: &Value, value: Value) -> Result<Value, String> {
    Schema::compile(schema).unwrap().check(value)
}

fn weather() -> Value {
    json!({
        "type": "object",
        "properties": {
            "city": { "type": "string", "minLength": 1 },
            "days": { "type": "integer", "minimum": 1, "maximum": 10 },
            "unit": { "enum": ["celsius", "fahrenheit"] },
            "at": { "$ref": "#/$defs/place" },
            "hourly": { "type": "boolean" },
            "codes": { "type": "array", "items": { "type": "number" }, "uniqueItems": true },
            "until": { "anyOf": [{ "type": "integer" }, { "type": "null" }] }
        },
        "required": ["city", "unit"],
        "additionalProperties": false,
        "$defs": {
            "place": {
                "type": "object",
                "properties": { "lat": { "type": "number" }, "lon": { "type": "number" } },
                "required": ["lat", "lon"],
                "additionalProperties": false
            }
        }
    })
}

#[test]
fn what_fits_stays_as_it_is() {
    let values = [
        json!({ "unit": "celsius", "city": "Lisbon" }),
        json!({ "city": "3", "unit": "celsius", "days": 3, "until": null, "codes": [1, 2.5] }),
        json!({ "city": "[1]", "unit": "celsius", "at": { "lon": 1, "lat": 2 } }),
    ];
    for value in values {
        let checked = check(&weather(), value.clone()).unwrap();
        assert_eq!(checked.to_string(), value.to_string());
    }
}

#[test]
fn strings_become_what_is_wanted_only_without_loss() {
    let of = |kind: &str| json!({ "type": kind });
    let any = |kinds: &[&str]| json!({ "type": kinds });
    let numbers = json!({ "type": "array", "items": { "type": "number" } });
    let forms = json!({ "oneOf": [
        { "type": "object", "properties": { "kind": { "const": "a" }, "n": { "type": "integer" } },
          "required": ["kind", "n"] },
        { "type": "object", "properties": { "kind": { "const": "b" }, "n": { "type": "boolean" } },
          "required": ["kind", "n"] }
    ] });
    // The schema, the value, and what becomes of it; `None` where it stays and does not fit.
    let table = [
        (of("integer"), json!("3"), Some(json!(3))),
        (of("integer"), json!("-3"), Some(json!(-3))),
        (of("integer"), json!("18446744073709551615"), Some(json!(u64::MAX))),
        (of("integer"), json!("18446744073709551616"), None),
        (of("integer"), json!("3.0"), None),
        (of("integer"), json!("03"), None),
        (of("integer"), json!(" 3"), None),
        (of("integer"), json!("three"), None),
        (of("integer"), json!(""), None),
        (of("integer"), json!(3.5), None),
        (of("integer"), json!(true), None),
        (of("number"), json!("3"), Some(json!(3))),
        (of("number"), json!("0.1"), Some(json!(0.1))),
        (of("number"), json!("0.10"), None),
        (of("number"), json!("1e3"), None),
        (of("number"), json!("0.1000000000000000055511151231257827"), None),
        (of("number"), json!("NaN"), None),
        (of("boolean"), json!("true"), Some(json!(true))),
        (of("boolean"), json!("True"), None),
        (of("boolean"), json!("1"), None),
        (of("boolean"), json!(1), None),
        (of("null"), json!("null"), Some(json!(null))),
        (of("string"), json!(3), None),
        (of("string"), json!(null), None),
        (of("string"), json!("3"), Some(json!("3"))),
        (any(&["string", "integer"]), json!("3"), Some(json!("3"))),
        (any(&["integer", "null"]), json!("null"), Some(json!(null))),
        (any(&["integer", "null"]), json!("7"), Some(json!(7))),
        (of("array"), json!("[1, \"a\"]"), Some(json!([1, "a"]))),
        (of("array"), json!("[1e3]"), None),
        (of("array"), json!("{\"a\":[123456789012345678901234567890]}"), None),
        (of("array"), json!("a, b"), None),
        (of("array"), json!("[1"), None),
        (of("object"), json!(" {\"b\": 1,\"a\":\"\\u00e9\"}\n"), Some(json!({"b": 1, "a": "é"}))),
        (of("object"), json!("[1]"), None),
        (numbers.clone(), json!(["1", 2, "2.5"]), Some(json!([1, 2, 2.5]))),
        (numbers.clone(), json!("[\"1\", 2]"), Some(json!([1, 2]))),
        (numbers, json!(["1", "two"]), None),
        (json!({ "enum": [1, 2] }), json!("2"), Some(json!(2))),
        (json!({ "enum": [1, 2] }), json!("3"), None),
        (json!({ "const": 1 }), json!("1"), Some(json!(1))),
        (json!({ "anyOf": [of("integer"), of("null")] }), json!("5"), Some(json!(5))),
        (json!({ "anyOf": [of("integer"), of("string")] }), json!("5"), Some(json!("5"))),
        (forms.clone(), json!({"kind": "b", "n": "true"}), Some(json!({"kind": "b", "n": true}))),
        (forms.clone(), json!({"kind": "a", "n": "1"}), Some(json!({"kind": "a", "n": 1}))),
        (forms, json!({"kind": "b", "n": "1"}), None),
        (
            json!({ "type": "object", "properties": { "n": { "$ref": "#/$defs/n" } },
                "$defs": { "n": { "type": "integer" } } }),
            json!({ "n": "1", "m": "1" }),
            Some(json!({ "n": 1, "m": "1" })),
        ),
    ];
    for (schema, value, expected) in table {
        let checked = check(&schema, value.clone());
        assert_eq!(checked.clone().ok(), expected, "{schema} {value} {checked:?}");
    }
}

#[test]
fn what_does_not_fit_is_told_by_its_place() {
    let long = "Lisbon and all the other places of which I have heard but never seen, alas";
    let good = |more: Value| {
        let mut value = json!({ "city": "Lisbon", "unit": "celsius" });
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        value
    };
    let table = [
        (json!({}), "`/`: missing `city` and `unit`"),
        (json!("Lisbon"), "`/`: found \"Lisbon\", expected an object"),
        (json!([]), "`/`: found [], expected an object"),
        (
            json!({ "cty": "Lisbon", "unit": "celsius" }),
            "`/`: missing `city`\n`/`: unknown `cty` (did you mean `city`?)",
        ),
        (
            good(json!({ "Days": 3, "mood": "good" })),
            "`/`: unknown `Days` (did you mean `days`?), `mood`; known: `city`, `days`, `unit`, \
             `at`, `hourly`, `codes`, `until`",
        ),
        (good(json!({ "city": 3 })), "`/city`: found 3, expected a string"),
        (good(json!({ "city": "" })), "`/city`: found \"\", expected at least 1 character"),
        (good(json!({ "days": "many" })), "`/days`: found \"many\", expected an integer"),
        (good(json!({ "days": "11" })), "`/days`: found 11, expected at most 10"),
        (good(json!({ "days": 2.5 })), "`/days`: found 2.5, expected an integer"),
        (
            good(json!({ "unit": "kelvin" })),
            "`/unit`: found \"kelvin\", expected one of \"celsius\", \"fahrenheit\"",
        ),
        (
            good(json!({ "until": long })),
            "`/until`: found \"Lisbon and all the other places of which I have heard but …, \
             expected an integer or null",
        ),
        (
            good(json!({ "at": { "lat": 1, "long": 2 } })),
            "`/at`: missing `lon`\n`/at`: unknown `long` (did you mean `lon`?)",
        ),
        (good(json!({ "codes": [1, "x"] })), "`/codes/1`: found \"x\", expected a number"),
        (good(json!({ "codes": [1, 1] })), "`/codes`: has the same item more than once"),
        (
            good(json!({ "codes": ["a", "b", "c", "d", "e", "f", "g"] })),
            "`/codes/0`: found \"a\", expected a number\n`/codes/1`: found \"b\", expected a \
             number\n`/codes/2`: found \"c\", expected a number\n`/codes/3`: found \"d\", \
             expected a number\n`/codes/4`: found \"e\", expected a number\nand 2 more",
        ),
    ];
    for (value, expected) in table {
        assert_eq!(check(&weather(), value.clone()).unwrap_err(), expected, "{value}");
    }
}

#[test]
fn every_kind_of_rule_has_its_words() {
    let forms = json!({ "oneOf": [
        { "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"] },
        { "type": "object", "properties": { "url": { "type": "string" } }, "required": ["url"] },
        { "type": "null" }
    ] });
    let table = [
        (json!({ "const": "go" }), json!("stop"), "`/`: found \"stop\", expected \"go\""),
        (json!({ "minimum": 1.5 }), json!(1), "`/`: found 1, expected at least 1.5"),
        (json!({ "exclusiveMinimum": 1 }), json!(1), "`/`: found 1, expected more than 1"),
        (json!({ "exclusiveMaximum": 1 }), json!(1), "`/`: found 1, expected less than 1"),
        (json!({ "multipleOf": 5 }), json!(7), "`/`: found 7, expected a multiple of 5"),
        (
            json!({ "maxLength": 2 }),
            json!("abc"),
            "`/`: found \"abc\", expected at most 2 characters",
        ),
        (json!({ "minItems": 1 }), json!([]), "`/`: found [], expected at least 1 item"),
        (json!({ "maxItems": 1 }), json!([1, 2]), "`/`: found [1,2], expected at most 1 item"),
        (
            json!({ "pattern": "^a+$" }),
            json!("b"),
            "`/`: found \"b\", expected text that matches ^a+$",
        ),
        (json!({ "properties": { "a": false } }), json!({ "a": 1 }), "`/a`: must be left out"),
        (
            json!({ "type": ["string", "integer", "null"] }),
            json!([]),
            "`/`: found [], expected null, an integer or a string",
        ),
        (
            json!({ "not": { "type": "null" } }),
            json!(null),
            "`/`: must not be of the form {\"type\":\"null\"}",
        ),
        (json!({ "minProperties": 1 }), json!({}), "`/`: found {}, expected at least 1 property"),
        (
            json!({ "anyOf": [{ "minimum": 1 }, { "multipleOf": 2 }] }),
            json!(-1),
            "`/`: fits none of the 2 forms that are allowed; nearest: found -1, expected at \
             least 1",
        ),
        (forms.clone(), json!({ "path": 1, "url": "u", "x": "y" }), ""),
        (
            forms.clone(),
            json!({}),
            "`/`: fits none of the 3 forms that are allowed; nearest: missing `path`",
        ),
        (
            forms.clone(),
            json!({ "path": "p", "url": "u" }),
            "`/`: fits more than one of the forms of which it must have exactly one",
        ),
        (
            json!({ "enum": (0..20).collect::<Vec<_>>() }),
            json!(99),
            "`/`: found 99, expected one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, and 8 more",
        ),
        (
            json!({ "properties": { "a/b": { "type": "null" } } }),
            json!({ "a/b": 1 }),
            "`/a~1b`: found 1, expected null",
        ),
    ];
    for (schema, value, expected) in table {
        let said = check(&schema, value.clone()).err().unwrap_or_default();
        assert_eq!(said, expected, "{schema} {value}");
    }
}

#[test]
fn bad_schemas_are_refused_with_their_place() {
    let table = [
        (
            json!({ "type": "object", "properties": { "city": { "type": "text" } } }),
            "`/properties/city/type`: fits none of the 2 forms that are allowed; nearest: found \
             \"text\", expected one of \"array\", \"boolean\", \"integer\", \"null\", \"number\", \
             \"object\", \"string\"",
        ),
        (json!({ "required": "city" }), r#"`/required`: found "city", expected an array"#),
        (
            json!({ "type": "string", "pattern": "(" }),
            r#"`/pattern`: found "(", expected text of the format regex"#,
        ),
        (json!("string"), r#"`/`: found "string", expected true or false or an object"#),
        (
            json!({ "$ref": "#/$defs/none" }),
            r#"it refers to `/$defs/none`, which it does not have"#,
        ),
        (
            json!({ "$ref": "https://example.com/schema.json" }),
            "`https://example.com/schema.json` leads out of the schema: only references \
             inside it are followed",
        ),
        (
            json!({ "$ref": "file:///etc/passwd" }),
            "`file:///etc/passwd` leads out of the schema: only references \
             inside it are followed",
        ),
        (
            json!({ "$ref": "other.json" }),
            "`other.json` leads out of the schema: only references \
             inside it are followed",
        ),
        (
            json!({ "$schema": "https://example.com/draft" }),
            "`/$schema`: `https://example.com/draft` is no version of JSON Schema that is known \
             here",
        ),
    ];
    for (schema, expected) in table {
        let said = Schema::compile(&schema).err().unwrap_or_default();
        assert_eq!(said, expected, "{schema}");
    }
}

#[test]
fn a_schema_may_refer_to_itself() {
    let tree = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "below": { "type": "array", "items": { "$ref": "#" } }
        },
        "required": ["name"]
    });
    let value = json!({ "name": "a", "below": "[{\"name\": \"b\", \"below\": []}]" });
    let expected = json!({ "name": "a", "below": [{ "name": "b", "below": [] }] });
    assert_eq!(check(&tree, value), Ok(expected));
    let value = json!({ "name": "a", "below": [{ "below": [] }] });
    assert_eq!(check(&tree, value), Err("`/below/0`: missing `name`".to_owned()));
}

#[test]
fn large_values_are_told_in_few_words_and_soon() {
    let schema = json!({ "type": "array", "items": {
        "type": "object",
        "properties": { "n": { "anyOf": [{ "type": "integer" }, { "type": "null" }] } },
        "required": ["a", "n"]
    } });
    let item = |n: &str| json!({ "a": 1, "n": n });
    let value: Vec<Value> = (0..3_000).map(|n: u32| item(&n.to_string())).collect();
    let expected: Vec<Value> = (0..3_000).map(|n| json!({ "a": 1, "n": n })).collect();
    assert_eq!(check(&schema, value.into()), Ok(expected.into()));
    let value = vec![json!({}); 3_000];
    assert_eq!(
        check(&schema, value.into()).unwrap_err(),
        "`/0`: missing `a` and `n`\n`/1`: missing `a` and `n`\n`/2`: missing `a` and \
         `n`\n`/3`: missing `a` and `n`\n`/4`: missing `a` and `n`\nand many more"
    );
}
