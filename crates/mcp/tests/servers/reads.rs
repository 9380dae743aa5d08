//! Resources and prompts.

use std::sync::Arc;

use inspan_core::{blobs::Blobs, message::Content};
use inspan_mcp::{PromptListed, Readable, ResourceListed, Wanted};
use serde_json::json;

use crate::world::{World, pictures};

#[tokio::test]
async fn what_can_be_read_is_listed_and_kept() {
    let world = World::new();
    let config = world.bad(&["reads"]);
    let resource = |uri: &str, name: &str, about: &str| ResourceListed {
        uri: uri.to_owned(),
        name: name.to_owned(),
        about: about.to_owned(),
    };
    let expected = Readable {
        resources: vec![
            resource("mem://a", "a", "About a."),
            resource("mem://picture", "picture", ""),
            resource("mem://{name}", "any", ""),
        ],
        prompts: vec![PromptListed {
            name: "plan".to_owned(),
            about: "Plans a trip.".to_owned(),
            arguments: vec![("city".to_owned(), true), ("day".to_owned(), false)],
        }],
    };
    assert_eq!(world.servers.readable(&config).await, Ok(expected.clone()));
    world.servers.close().await;
    let before = world.journal();
    assert_eq!(world.later().readable(&config).await, Ok(expected));
    assert_eq!(world.journal(), before);
}

#[tokio::test]
async fn resources_and_prompts_are_read_as_results_are() {
    let world = World::new();
    let config = world.bad(&["reads"]);
    let blobs: Arc<dyn Blobs> = Arc::new(inspan_store::Memory::default());
    let shown = pictures(blobs);
    let read = async |wanted: Wanted| {
        let read = world.servers.read(&config, &wanted, Some(&shown), None).await;
        read.map_err(|error| error.to_string())
    };
    let resource = |uri: &str| Wanted::Resource(uri.to_owned());
    let a = read(resource("mem://a")).await;
    assert_eq!(a, Ok(vec![Content::text("mem://a:\nall about a")]));
    let picture = read(resource("mem://picture")).await.unwrap();
    assert!(matches!(&picture[..], [Content::Image(image)] if image.media_type == "image/png"));

    let arguments = json!({ "city": "Rome" }).as_object().unwrap().clone();
    let plan = read(Wanted::Prompt("plan".to_owned(), arguments)).await;
    let texts = ["Plan a trip to Rome.", "You said before:\nFor how long?", "mem://a:\nTwo days."];
    assert_eq!(plan, Ok(texts.map(Content::text).to_vec()));

    let wrong = |uri: &str, why: &str| {
        format!("the resource `{uri}` of the MCP server `bad` can't be read: {why}")
    };
    let table = [
        ("mem://empty", "it is empty"),
        ("mem://long", "it has 300012 bytes, and at most 262144 are read"),
        ("mem://b", "it refused the question: no such resource (error -32002)"),
    ];
    for (uri, why) in table {
        assert_eq!(read(resource(uri)).await, Err(wrong(uri, why)));
    }
}
