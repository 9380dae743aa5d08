//! Tools from functions: what the model is told of them, and what they say of wrong arguments.

use inspan::{
    Context, Effects, Invocation, Repeat, Shared, Tool, ToolError, ToolResult, ToolSpec, schemars,
    serde, tool,
};
use serde_json::{Value, json};

/// The current weather in a city, in °C.
///
/// Use it for today only.
#[tool(effects(reads_untrusted), repeat = pure)]
async fn weather(
    /// The city's name, as people write it.
    city: String,
) -> Result<String, ToolError> {
    match city.as_str() {
        "Lisbon" => Ok("21 °C".to_owned()),
        _ => Err(ToolError::new(format!("no station in {city}"))),
    }
}

/// In which order.
#[derive(Debug, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
#[serde(crate = "inspan::serde", rename_all = "snake_case")]
#[schemars(crate = "inspan::schemars")]
enum Order {
    Newest,
    Cheapest,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(crate = "inspan::serde")]
#[schemars(crate = "inspan::schemars")]
struct Price {
    /// In euros.
    at_most: f64,
    at_least: Option<f64>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(crate = "inspan::serde")]
#[schemars(crate = "inspan::schemars")]
struct Tree {
    children: Vec<Tree>,
}

/// Finds orders.
#[tool(
    effects(),
    repeat = idempotent,
    name = "search-orders",
    timeout = "1m30s",
    polls,
    resource = "customer"
)]
fn search_orders(
    /// Whose.
    customer: u32,
    context: &Context,
    tags: Option<Vec<String>>,
    price: Option<Price>,
    #[default(Order::Newest)] order: Order,
    /// How many.
    #[default(10)]
    count_max: u8,
    #[default("all")] state: String,
) -> Value {
    let tags = tags.unwrap_or_default();
    let price = price.map(|price| (price.at_most, price.at_least));
    json!([customer, context.key(), tags, price, order, count_max, state])
}

/// Does everything.
#[tool]
async fn anything() {}

/// Takes a tree.
#[tool(repeat = keyed)]
async fn plant(tree: Tree) -> usize {
    tree.children.len()
}

#[test]
fn the_signature_is_the_declaration() {
    let empty = json!({ "type": "object", "properties": {}, "additionalProperties": false });
    assert_eq!(
        *weather.spec(),
        ToolSpec {
            input: json!({
                "type": "object",
                "properties": {
                    "city": {
                        "type": "string",
                        "description": "The city's name, as people write it.",
                    },
                },
                "required": ["city"],
                "additionalProperties": false,
            }),
            effects: Effects { reads_untrusted: true, ..Effects::NONE },
            repeat: Repeat::Pure,
            ..ToolSpec::new(
                "weather",
                "The current weather in a city, in °C.\n\nUse it for today only."
            )
        }
    );
    assert_eq!(
        *search_orders.spec(),
        ToolSpec {
            input: json!({
                "type": "object",
                "properties": {
                    "customer": { "type": "integer", "minimum": 0, "description": "Whose." },
                    "tags": { "type": "array", "items": { "type": "string" } },
                    "price": {
                        "type": "object",
                        "properties": {
                            "at_most": { "description": "In euros.", "type": "number" },
                            "at_least": { "type": ["number", "null"] },
                        },
                        "required": ["at_most"],
                    },
                    "order": {
                        "description": "In which order.",
                        "type": "string",
                        "enum": ["newest", "cheapest"],
                        "default": "newest",
                    },
                    "count_max": {
                        "type": "integer",
                        "minimum": 0,
                        "maximum": 255,
                        "description": "How many.",
                        "default": 10,
                    },
                    "state": { "type": "string", "default": "all" },
                },
                "required": ["customer"],
                "additionalProperties": false,
            }),
            effects: Effects::NONE,
            repeat: Repeat::Idempotent,
            timeout_ms_max: 90_000,
            polls: true,
            resource: Some("customer".to_owned()),
            ..ToolSpec::new("search-orders", "Finds orders.")
        }
    );
    assert_eq!(
        *anything.spec(),
        ToolSpec { input: empty, ..ToolSpec::new("anything", "Does everything.") }
    );
    assert_eq!(
        plant.spec().input,
        json!({
            "type": "object",
            "properties": {
                "tree": {
                    "type": "object",
                    "properties": {
                        "children": { "type": "array", "items": { "$ref": "#/$defs/Tree" } },
                    },
                    "required": ["children"],
                },
            },
            "required": ["tree"],
            "additionalProperties": false,
            "$defs": {
                "Tree": {
                    "type": "object",
                    "properties": {
                        "children": { "type": "array", "items": { "$ref": "#/$defs/Tree" } },
                    },
                    "required": ["children"],
                },
            },
        })
    );
}

#[test]
fn keys_of_a_schema_stand_in_the_order_of_the_signature() {
    let names: Vec<String> = match &search_orders.spec().input["properties"] {
        Value::Object(fields) => fields.keys().cloned().collect(),
        other => panic!("{other}"),
    };
    assert_eq!(names, ["customer", "tags", "price", "order", "count_max", "state"]);
}

#[test]
fn wrong_arguments_are_told_with_their_path() {
    let as_given = |value: Value| (value.clone(), Ok(value));
    let wrong = |value: Value, why: &str| (value, Err(why.to_owned()));
    let weather_table = [
        as_given(json!({ "city": "Lisbon" })),
        wrong(json!({ "city": 3 }), "/city: invalid type: integer `3`, expected a string"),
        wrong(json!({ "city": null }), "/city: invalid type: null, expected a string"),
        wrong(json!({}), "/city: is missing"),
        wrong(
            json!({ "town": "Lisbon" }),
            "/city: is missing\n/town: there is no such argument; known: city",
        ),
        wrong(json!("Lisbon"), "the arguments must be an object"),
    ];
    for (arguments, checked) in weather_table {
        assert_eq!(weather.check(arguments), checked);
    }
    let orders_table = [
        as_given(json!({ "customer": 1, "tags": ["a"], "price": { "at_most": 1.5 } })),
        (json!({ "customer": 1, "tags": null, "order": null }), Ok(json!({ "customer": 1 }))),
        // Another form, without loss.
        (
            json!({ "customer": "1", "tags": "[\"a\"]", "count_max": 3.0 }),
            Ok(json!({ "customer": 1, "tags": ["a"], "count_max": 3 })),
        ),
        wrong(
            json!({ "customer": 1, "price": { "at_most": "much" }, "tags": ["a", 2] }),
            "/tags/1: invalid type: integer `2`, expected a string\n\
             /price/at_most: invalid type: string \"much\", expected f64",
        ),
        wrong(
            json!({ "customer": 1, "price": {}, "order": "oldest", "count_max": 256 }),
            "/price: missing field `at_most`\n\
             /order: unknown variant `oldest`, expected `newest` or `cheapest`\n\
             /count_max: invalid value: integer `256`, expected u8",
        ),
    ];
    for (arguments, checked) in orders_table {
        assert_eq!(search_orders.check(arguments), checked);
    }
    assert_eq!(
        anything.check(json!({ "a": 1 })),
        Err("/a: there is no such argument; known: none".to_owned())
    );
    let many = json!({ "a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "g": 1 });
    let told = anything.check(many).unwrap_err();
    assert_eq!(told.lines().count(), 5, "{told}");
}

fn call(arguments: Value) -> Invocation {
    Invocation {
        session: "s".to_owned().try_into().unwrap(),
        call: inspan::CallId::new(3, 0),
        key: "s/3/0".to_owned(),
        attempt: 1,
        arguments,
        shared: Shared::default(),
    }
}

#[tokio::test]
async fn a_tool_runs_and_the_function_is_still_there() {
    assert_eq!(weather::call("Lisbon".to_owned()).await.unwrap(), "21 °C");
    let ran = weather.run(call(json!({ "city": "Lisbon" }))).await;
    assert_eq!(ran, Ok(ToolResult::text("21 °C")));
    let failed = weather.run(call(json!({ "city": "Porto" }))).await;
    assert_eq!(failed, Err(ToolError::new("no station in Porto")));
    let defaults = search_orders.run(call(json!({ "customer": 7 }))).await;
    assert_eq!(defaults, Ok(ToolResult::text(r#"[7,"s/3/0",[],null,"newest",10,"all"]"#)));
    let all = json!({
        "customer": 7,
        "tags": ["a"],
        "price": { "at_most": 2.5, "at_least": 1.0 },
        "order": "cheapest",
        "count_max": 1,
        "state": "open",
    });
    assert_eq!(
        search_orders.run(call(all)).await,
        Ok(ToolResult::text(r#"[7,"s/3/0",["a"],[2.5,1.0],"cheapest",1,"open"]"#))
    );
    assert_eq!(anything.run(call(json!({}))).await, Ok(ToolResult::default()));
    let tree = json!({ "tree": { "children": [{ "children": [] }] } });
    assert_eq!(plant.run(call(tree)).await, Ok(ToolResult::text("1")));
}

/// Gives evidence.
#[tool]
async fn whole(#[default(false)] fails: bool) -> Result<ToolResult, ToolError> {
    let evidence = Some(json!({ "revision": 7 }));
    if fails {
        return Err(ToolError { message: "no".to_owned(), evidence });
    }
    Ok(ToolResult { evidence, ..ToolResult::text("yes") })
}

/// Reads a number.
#[tool]
fn number(text: String) -> Result<u32, ToolError> {
    Ok(text.parse()?)
}

/// Fails in words.
#[tool]
fn words() -> Result<(), &'static str> {
    Err("not today")
}

#[tokio::test]
async fn results_and_errors_keep_what_they_hold() {
    let evidence = Some(json!({ "revision": 7 }));
    assert_eq!(
        whole.run(call(json!({}))).await,
        Ok(ToolResult { evidence: evidence.clone(), ..ToolResult::text("yes") })
    );
    assert_eq!(
        whole.run(call(json!({ "fails": true }))).await,
        Err(ToolError { message: "no".to_owned(), evidence })
    );
    assert_eq!(number.run(call(json!({ "text": "7" }))).await, Ok(ToolResult::text("7")));
    assert_eq!(
        number.run(call(json!({ "text": "x" }))).await,
        Err(ToolError::new("invalid digit found in string"))
    );
    assert_eq!(words.run(call(json!({}))).await, Err(ToolError::new("not today")));
}

#[tokio::test]
async fn a_result_by_another_name_is_one() {
    type Small<T> = Result<T, String>;

    /// Says whether a number is small.
    #[tool(effects(), repeat = pure)]
    fn is_small(number: u32) -> Small<bool> {
        if number < 10 { Ok(true) } else { Err(format!("{number} is not small")) }
    }

    for (given, told) in [(3, Ok("true")), (30, Err("30 is not small"))] {
        let outcome = is_small.run(call(json!({ "number": given }))).await;
        let outcome = outcome.map(|result| result.to_text()).map_err(|error| error.message);
        assert_eq!(outcome, told.map(str::to_owned).map_err(str::to_owned));
    }
}

#[tokio::test]
async fn a_value_may_have_methods_of_any_name() {
    #[derive(serde::Serialize)]
    #[serde(crate = "inspan::serde")]
    struct Shape {
        corners: u32,
    }

    impl Shape {
        fn kind(&self) -> &'static str {
            if self.corners == 3 { "triangle" } else { "polygon" }
        }
    }

    /// Gives a shape.
    #[tool(effects(), repeat = pure)]
    fn shape(corners: u32) -> Shape {
        Shape { corners }
    }

    assert_eq!(shape::call(3).kind(), "triangle");
    let told = shape.run(call(json!({ "corners": 4 }))).await.unwrap();
    assert_eq!(told.to_text(), r#"{"corners":4}"#);
}
