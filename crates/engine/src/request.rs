//! Requests that only grow: the bytes of each segment are made once and kept.

use std::{collections::HashMap, sync::Arc};

use inspan_core::{
    State,
    hash::Hash,
    message::{Content, ImageRef},
    prompt::{Message, Segment, project_after},
    provider::{Images, Provider, Request},
    repair::Repairs,
    store::Blobs,
};

/// The bytes of the segments of one session for one provider.
#[derive(Default)]
pub(crate) struct Rendered {
    tools: Option<Arc<[u8]>>,
    system: Option<Arc<[u8]>>,
    messages: Vec<Arc<[u8]>>,
    /// The repairs with which they were made.
    repairs: Repairs,
}

impl Rendered {
    /// The request that `state` asks for. Only what came since the last one is rendered, unless
    /// another part of the session is left out now.
    pub(crate) async fn request(
        &mut self,
        state: &State,
        provider: &dyn Provider,
        blobs: Option<&dyn Blobs>,
        output_tokens_max: u32,
    ) -> Request {
        if self.repairs != state.repairs {
            *self = Self { repairs: state.repairs.clone(), ..Self::default() };
        }
        let projection = project_after(state, provider.issuer(), self.messages.len());
        let new = &projection.messages;
        let pictures = Pictures::load(new.iter().map(|message| &**message), blobs).await;
        for message in new {
            let bytes = provider.render(Segment::Message(message), &pictures);
            self.messages.push(bytes.into());
        }
        let head = |segment| Arc::from(provider.render(segment, &pictures));
        let tools = self.tools.get_or_insert_with(|| head(Segment::Tools(&projection.tools)));
        let system = self.system.get_or_insert_with(|| head(Segment::System(projection.system)));
        Request {
            tools: tools.clone(),
            system: system.clone(),
            messages: self.messages.clone(),
            output_tokens_max,
        }
    }
}

/// The pictures of the messages that are being rendered.
struct Pictures(HashMap<Hash, Arc<[u8]>>);

impl Pictures {
    async fn load(messages: impl Iterator<Item = &Message>, blobs: Option<&dyn Blobs>) -> Self {
        let mut pictures = HashMap::new();
        let Some(blobs) = blobs else { return Self(pictures) };
        for image in messages.flat_map(images_of) {
            // A picture that can't be read is told to the model as lost.
            if let Ok(Some(bytes)) = blobs.get(&image.hash).await {
                pictures.insert(image.hash, bytes);
            }
        }
        Self(pictures)
    }
}

impl Images for Pictures {
    fn image(&self, hash: &Hash) -> Option<Arc<[u8]>> {
        self.0.get(hash).cloned()
    }
}

fn images_of(message: &Message) -> Vec<&ImageRef> {
    let Message::User(message) = message else { return Vec::new() };
    let results = message.results.iter().flat_map(|result| &result.result.content);
    results
        .chain(&message.content)
        .filter_map(|content| match content {
            Content::Image(image) => Some(image),
            Content::Text { .. } => None,
        })
        .collect()
}
