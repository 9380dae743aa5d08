use super::*;

fn form(properties: &Value, required: &Value) -> Result<Vec<Field>, String> {
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    match wants(&json!({ "requestedSchema": schema }))? {
        Wants::Form(fields) => Ok(fields),
        Wants::Visit(url) => Err(url),
    }
}

#[test]
fn fields_are_read_by_their_kind() {
    let one = json!({ "type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"] });
    let titled = json!({ "type": "string", "oneOf": [
        { "const": "2", "title": "Two" }, { "const": "1", "title": "One" }] });
    let many = json!({ "type": "array", "items": { "enum": ["a", "b", "c"] }, "maxItems": 2 });
    let properties = json!({
        "name": { "type": "string", "minLength": 2, "title": "Your name" },
        "age": { "type": "integer", "minimum": 0 },
        "height": { "type": "number", "default": 1.5 },
        "member": { "type": "boolean", "default": true },
        "one": one, "titled": titled, "many": many,
    });
    let fields = form(&properties, &json!(["name"])).unwrap();
    let read =
        |name: &str, line: &str| fields.iter().find(|field| field.name == name).unwrap().read(line);
    let table = [
        ("name", "Ada ", Ok(Some(json!("Ada")))),
        ("name", "", Err("it must be filled in")),
        ("name", "A", Err("found \"A\", expected at least 2 characters")),
        ("age", "36", Ok(Some(json!(36)))),
        ("age", "", Ok(None)),
        ("age", "old", Err("write a whole number")),
        ("age", "-1", Err("found -1, expected at least 0")),
        ("height", "", Ok(Some(json!(1.5)))),
        ("height", "2", Ok(Some(json!(2)))),
        ("height", "tall", Err("write a number, such as 3 or 2.5")),
        ("member", "No", Ok(Some(json!(false)))),
        ("member", "", Ok(Some(json!(true)))),
        ("member", "maybe", Err("write y or n")),
        ("one", "2", Ok(Some(json!("g")))),
        ("one", "Red", Ok(Some(json!("r")))),
        ("one", "3", Err("`3` is none of them: write a number from the list")),
        ("titled", "2", Ok(Some(json!("2")))),
        ("titled", "One", Ok(Some(json!("1")))),
        ("many", "a, 3", Ok(Some(json!(["a", "c"])))),
    ];
    for (name, line, expected) in table {
        assert_eq!(read(name, line), expected.map_err(str::to_owned), "{name} {line}");
    }
    assert!(read("many", "1,2,3").is_err());
    let names: Vec<_> = fields.iter().map(|field| field.title.as_str()).collect();
    assert_eq!(names, ["Your name", "age", "height", "member", "one", "titled", "many"]);
}

#[test]
fn what_no_person_can_type_is_told() {
    let nested = json!({ "a": { "type": "object" } });
    let many: Map<String, Value> =
        (0..FIELDS_MAX + 1).map(|n| (n.to_string(), json!({ "type": "string" }))).collect();
    let table = [
        (
            form(&nested, &json!([])),
            "the server asks for `a`, which is of no kind that a person can type",
        ),
        (
            form(&many.into(), &json!([])),
            "the server asks for 33 fields, and at most 32 are filled in",
        ),
    ];
    for (found, expected) in table {
        assert_eq!(found.err().as_deref(), Some(expected));
    }
    let visit = |url: &str| wants(&json!({ "mode": "url", "url": url })).map(|_| ());
    assert_eq!(visit("https://example.com/pay"), Ok(()));
    let why = "the server names no page that could be opened".to_owned();
    assert_eq!(visit("file:///etc/passwd"), Err(why));
}

#[tokio::test]
async fn replies_are_sent_in_the_form_of_the_protocol() {
    let params = json!({ "message": "Who?", "requestedSchema": {
        "type": "object", "properties": { "name": { "type": "string" } } } });
    let given: Map<String, Value> = [("name".to_owned(), json!("Ada"))].into_iter().collect();
    let table = [
        (Reply::Given(given), Ok(json!({ "action": "accept", "content": { "name": "Ada" } }))),
        (Reply::Declined, Ok(json!({ "action": "decline" }))),
        (Reply::Cancelled, Ok(json!({ "action": "cancel" }))),
    ];
    let (person, mut asked) = inquiries();
    for (reply, expected) in table {
        let answering = async {
            let inquiry = asked.recv().await.unwrap();
            assert_eq!((inquiry.server.as_str(), inquiry.message.as_str()), ("s", "Who?"));
            inquiry.reply(reply);
        };
        let (answer, ()) = tokio::join!(person.ask("s", &params), answering);
        assert_eq!(answer, expected);
    }
    drop(asked);
    let gone = "the server wants input from a person, and nobody can be asked: Who?".to_owned();
    assert_eq!(person.ask("s", &params).await, Err(gone));
}
