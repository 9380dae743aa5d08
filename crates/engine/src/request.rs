//! Requests that only grow: the bytes of each segment are made once and kept.

use std::{
    borrow::Cow,
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use inspan_core::{
    State,
    hash::Hash,
    message::Content,
    pictures::{Fit, PictureLimits, pictures_of},
    prompt::{Message, Segment, UserMessage, project_after},
    provider::{Images, Provider, Request},
    repair::Repairs,
    store::{Blobs, StoreError},
    words,
};

use crate::tools::cap::aside;

/// The bytes of the segments of one session for one provider.
#[derive(Default)]
pub(crate) struct Rendered {
    tools: Option<Arc<[u8]>>,
    system: Option<Arc<[u8]>>,
    messages: Arc<Vec<Arc<[u8]>>>,
    /// The repairs with which they were made.
    repairs: Repairs,
}

impl Rendered {
    /// The tools are others from here on.
    pub(crate) fn forget_tools(&mut self) {
        self.tools = None;
    }

    /// The request that `state` asks for. Only what came since the last one is rendered, unless
    /// another part of the session is left out now.
    pub(crate) async fn request(
        &mut self,
        state: &State,
        provider: &dyn Provider,
        kept: Kept<'_>,
        output_tokens_max: u32,
    ) -> Request {
        if self.repairs != state.repairs {
            *self = Self { repairs: state.repairs.clone(), ..Self::default() };
        }
        let projection = project_after(state, provider.issuer(), self.messages.len());
        let new = &projection.messages;
        let limits = provider.picture_limits();
        // A server that takes none is told of them in words.
        let kept = Kept { fit: kept.fit.filter(|_| limits.count_max > 0), ..kept };
        let shown = new.iter().map(|message| &***message);
        let pictures = Pictures::load(shown, kept, &limits).await;
        // No request is under way, so that it grows where it is.
        let messages = Arc::make_mut(&mut self.messages);
        for message in new {
            let message = pictures.noted(message);
            let bytes = provider.render(Segment::Message(&message), &pictures);
            messages.push(bytes.into());
        }
        let head = |segment| Arc::from(provider.render(segment, &pictures));
        let tools = self.tools.get_or_insert_with(|| {
            provider.render_tools(&projection.tools, &projection.found).into()
        });
        let system = self.system.get_or_insert_with(|| head(Segment::System(projection.system)));
        Request {
            tools: tools.clone(),
            system: system.clone(),
            messages: self.messages.clone(),
            output_tokens_max,
        }
    }
}

/// Where pictures are, and what makes them smaller.
#[derive(Clone, Copy)]
pub(crate) struct Kept<'a> {
    pub(crate) blobs: Option<&'a dyn Blobs>,
    pub(crate) fit: Option<&'a Arc<dyn Fit>>,
}

/// The pictures of the messages that are being rendered: their bytes as they are sent, or why they
/// can't be.
struct Pictures(HashMap<Hash, Result<Arc<[u8]>, String>>);

impl Pictures {
    async fn load(
        messages: impl Iterator<Item = &Message>,
        kept: Kept<'_>,
        limits: &PictureLimits,
    ) -> Self {
        let mut pictures = HashMap::new();
        let Some(blobs) = kept.blobs else { return Self(pictures) };
        for image in messages.flat_map(pictures_of) {
            // A picture that can't be read is told to the model as lost.
            if let Some(sent) = sent(&image.hash, blobs, kept.fit, limits).await {
                pictures.insert(image.hash, sent);
            }
        }
        Self(pictures)
    }

    /// The message, in which a note stands for each picture that can't be sent.
    fn noted<'a>(&self, message: &'a Message) -> Cow<'a, Message> {
        let why = |content: &Content| match content {
            Content::Image(image) => self.0.get(&image.hash)?.as_ref().err(),
            Content::Text { .. } => None,
        };
        let note = |content: &Content| match why(content) {
            Some(why) => Content::text(words::image_unfit(why)),
            None => content.clone(),
        };
        match message {
            Message::User(user) if self.0.values().any(Result::is_err) => {
                let mut results = user.results.clone();
                for result in &mut results {
                    result.result.content = result.result.content.iter().map(note).collect();
                }
                let content = user.content.iter().map(note).collect();
                Cow::Owned(Message::User(UserMessage { results, content }))
            }
            message => Cow::Borrowed(message),
        }
    }
}

impl Images for Pictures {
    fn image(&self, hash: &Hash) -> Option<Arc<[u8]>> {
        self.0.get(hash).and_then(|sent| sent.as_ref().ok()).cloned()
    }
}

/// The bytes of a picture as they are sent; `None` when it is lost. What was made smaller is kept,
/// so that later requests, and other processes, send the same.
async fn sent(
    hash: &Hash,
    blobs: &dyn Blobs,
    fit: Option<&Arc<dyn Fit>>,
    limits: &PictureLimits,
) -> Option<Result<Arc<[u8]>, String>> {
    let PictureLimits { bytes_max, side_px_max, .. } = *limits;
    let name = format!("{side_px_max}px-{bytes_max}b");
    if let (Some(_), Ok(Some(smaller))) = (fit, blobs.get_derived(hash, &name).await) {
        return Some(Ok(smaller));
    }
    let whole = match blobs.get(hash).await {
        Ok(whole) => whole?,
        Err(StoreError::BlobDamaged { .. }) => return None,
        // It may only be away.
        Err(_) => return Some(Err(words::IMAGE_AWAY.to_owned())),
    };
    let Some(fit) = fit else { return Some(Ok(whole)) };
    let (fit, looked_at, limits) = (Arc::clone(fit), Arc::clone(&whole), *limits);
    // Code of others: what breaks down in it is one picture, not the session.
    let fitted = move || {
        catch_unwind(AssertUnwindSafe(|| fit.fit(&looked_at, &limits)))
            .unwrap_or_else(|_| Err("it can't be read".to_owned()))
    };
    let smaller: Arc<[u8]> = match aside(fitted).await {
        Ok(Some(smaller)) => smaller.into(),
        Ok(None) => return Some(Ok(whole)),
        Err(why) => return Some(Err(why)),
    };
    // Without it, it is made anew next time.
    let _ = blobs.put_derived(hash, &name, smaller.clone()).await;
    Some(Ok(smaller))
}
