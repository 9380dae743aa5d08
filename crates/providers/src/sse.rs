//! From the bytes of an answer to model events: server-sent events, their limits, and the decoder
//! of the wire.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use inspan_core::provider::ModelEvent;
use serde_json::Value;
use sse_stream::{Sse, SseByteStream};
use tokio::time::timeout;

use crate::failure::Failure;

/// The limit on one event of a stream in bytes: a whole call in one piece with arguments of
/// 10 MB fits, escapes included.
pub const EVENT_BYTES_MAX: usize = 32 << 20;
/// The limit on all bytes of a reply: some hundred bytes for each token of the longest ones.
pub const REPLY_BYTES_MAX: usize = 512 << 20;
/// How long the rest of an answer is read after its last event, so that the connection can be
/// used again.
const REST_MS_MAX: u64 = 1_000;
/// How long the end of a reply is held back for that. The rest is almost always there already,
/// and a next request that came before it was read would need a new connection.
const REST_HELD_MS_MAX: u64 = 20;

/// The bytes of an answer as they come.
pub(crate) type Pieces = Pin<Box<dyn Stream<Item = Result<Bytes, Failure>> + Send>>;

/// A wire's state machine: the data of a server-sent event in, model events out.
pub(crate) trait Decode: Send {
    /// Takes the data of one event. After `Finished` is put out nothing more is given.
    ///
    /// # Errors
    /// The answer tells of an error or makes no sense.
    fn event(&mut self, data: &str, out: &mut Vec<ModelEvent>) -> Result<(), Failure>;

    /// The stream is over and `Finished` was not put out yet.
    ///
    /// # Errors
    /// The end of the answer is missing.
    fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), Failure>;
}

/// The data of an event as JSON.
///
/// # Errors
/// It is none, or tells of an error.
pub(crate) fn object(data: &str) -> Result<Value, Failure> {
    let value = serde_json::from_str(data)
        .map_err(|error| Failure::network(format!("sent an event that is no JSON: {error}")))?;
    Failure::in_object(&value).map_or(Ok(value), Err)
}

/// The end of a stream whose end is missing.
pub(crate) fn ended_early() -> Failure {
    Failure::network("ended the stream before the answer was whole")
}

/// A reply without text or calls. Whether the model has `reasoned` is said, because more tokens or
/// a simpler prompt may then help.
pub(crate) fn empty_reply(reasoned: bool) -> Failure {
    Failure::network(match reasoned {
        true => "sent reasoning, but no answer after it",
        false => "sent an empty reply",
    })
}

/// The model events of a stream. The last item is `Finished` or a failure.
pub(crate) fn decode(
    pieces: Pieces,
    decoder: Box<dyn Decode>,
) -> impl Stream<Item = Result<ModelEvent, Failure>> + Send {
    let unread = Arc::new(AtomicUsize::new(0));
    let sse = SseByteStream::new(capped(pieces, Arc::clone(&unread))).boxed();
    let decoding = Decoding { sse: Some(sse), unread, decoder, ready: VecDeque::new() };
    stream::unfold(decoding, |mut decoding| async {
        let item = decoding.next().await?;
        Some((item, decoding))
    })
}

type Events = Pin<Box<dyn Stream<Item = Result<Sse, sse_stream::Error>> + Send>>;

struct Decoding {
    /// None when nothing more is read.
    sse: Option<Events>,
    /// Bytes since the last whole event.
    unread: Arc<AtomicUsize>,
    decoder: Box<dyn Decode>,
    ready: VecDeque<Result<ModelEvent, Failure>>,
}

impl Decoding {
    async fn next(&mut self) -> Option<Result<ModelEvent, Failure>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            let event = self.sse.as_mut()?.next().await;
            self.unread.store(0, Ordering::Relaxed);
            if let Some(rest) = self.take(event) {
                read_rest(rest).await;
            }
        }
    }

    /// Takes an event. What follows the end of the reply is given back.
    fn take(&mut self, event: Option<Result<Sse, sse_stream::Error>>) -> Option<Events> {
        let mut out = Vec::new();
        let (taken, more) = match event {
            Some(Ok(Sse { data: Some(data), .. })) if !data.trim().is_empty() => {
                (self.decoder.event(&data, &mut out), true)
            }
            Some(Ok(_)) => (Ok(()), true),
            Some(Err(error)) => (Err(broken(error)), false),
            None => (self.decoder.end(&mut out), false),
        };
        let finished = out.iter().any(|event| matches!(event, ModelEvent::Finished(_)));
        self.ready.extend(out.into_iter().map(Ok));
        let more = more && taken.is_ok();
        self.ready.extend(taken.err().map(Err));
        self.sse.take_if(|_| finished || !more).filter(|_| finished)
    }
}

/// Reads what follows the last event: here for a moment, then beside the caller. A connection
/// with an unread rest can't be used again; and one that was read is free only when its own task
/// has had a turn, before which a next request would begin to connect anew.
async fn read_rest(mut sse: Events) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let rest = async move { while let Some(Ok(_)) = sse.next().await {} };
    let mut rest = Box::pin(timeout(Duration::from_millis(REST_MS_MAX), rest));
    if timeout(Duration::from_millis(REST_HELD_MS_MAX), &mut rest).await.is_err() {
        runtime.spawn(rest);
    } else {
        tokio::task::yield_now().await;
    }
}

fn broken(error: sse_stream::Error) -> Failure {
    match error {
        sse_stream::Error::Body(cause) => match cause.downcast::<Failure>() {
            Ok(failure) => *failure,
            Err(cause) => Failure::network(format!("the connection broke: {cause}")),
        },
        error => Failure::network(format!("sent a stream that can't be read: {error}")),
    }
}

/// The pieces, and a failure in place of the one that passes a limit. `unread` is set to zero by
/// the reader at each event; a piece is counted whole, so the limit is met within one piece.
fn capped(
    pieces: Pieces,
    unread: Arc<AtomicUsize>,
) -> impl Stream<Item = Result<Bytes, Failure>> + Send {
    let mut whole = 0;
    pieces.map(move |piece| {
        let piece = piece?;
        whole += piece.len();
        let unread = unread.fetch_add(piece.len(), Ordering::Relaxed) + piece.len();
        let over = |what: &str, max: usize| {
            Err(Failure::network(format!("sent {what} of more than {} MiB", max >> 20)))
        };
        match piece {
            _ if unread > EVENT_BYTES_MAX => over("an event", EVENT_BYTES_MAX),
            _ if whole > REPLY_BYTES_MAX => over("a reply", REPLY_BYTES_MAX),
            piece => Ok(piece),
        }
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use futures_util::FutureExt;
    use inspan_core::provider::ErrorClass;

    use super::*;

    /// All that comes of these pieces.
    pub(crate) fn events_of<'a>(
        pieces: impl IntoIterator<Item = &'a [u8]>,
        decoder: impl Decode + 'static,
    ) -> Vec<Result<ModelEvent, Failure>> {
        let pieces: Vec<_> =
            pieces.into_iter().map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        let events = decode(stream::iter(pieces).boxed(), Box::new(decoder)).collect();
        events.now_or_never().expect("pieces that are all there")
    }

    /// Whether the last of these says that the reply is whole.
    pub(crate) fn is_finished(events: &[Result<ModelEvent, Failure>]) -> bool {
        matches!(events.last(), Some(Ok(ModelEvent::Finished(_))))
    }

    /// Tries the stream cut in two at every byte, and in single bytes: always the same events.
    /// Ended at every byte: never whole before `terminal` bytes, and always an end.
    pub(crate) fn every_byte<D: Decode + 'static>(
        sse: &str,
        terminal: usize,
        new: impl Fn() -> D,
    ) -> Vec<Result<ModelEvent, Failure>> {
        let bytes = sse.as_bytes();
        let whole = events_of([bytes], new());
        assert_eq!(events_of(bytes.chunks(1), new()), whole, "in single bytes");
        for at in 0..=bytes.len() {
            let (first, second) = bytes.split_at(at);
            assert_eq!(events_of([first, second], new()), whole, "split at {at}");
            let cut = events_of([first], new());
            assert_eq!(is_finished(&cut), at >= terminal, "ended at {at}");
            let ends = |e: &Result<_, _>| matches!(e, Ok(ModelEvent::Finished(_)) | Err(_));
            assert_eq!(cut.iter().filter(|e| ends(e)).count(), 1, "ended at {at}");
        }
        whole
    }

    struct Nothing;

    impl Decode for Nothing {
        fn event(&mut self, data: &str, _: &mut Vec<ModelEvent>) -> Result<(), Failure> {
            object(data).map(|_| ())
        }

        fn end(&mut self, _: &mut Vec<ModelEvent>) -> Result<(), Failure> {
            Err(ended_early())
        }
    }

    #[test]
    fn limits_and_nonsense_are_failures() {
        let mega = vec![b'x'; 1 << 20];
        let huge: Vec<&[u8]> =
            [&b"data: "[..]].into_iter().chain(std::iter::repeat_n(&mega[..], 33)).collect();
        let table: [(Vec<&[u8]>, &str); 4] = [
            (huge, "sent an event of more than 32 MiB"),
            (
                vec![b"data: {nope}\n\n"],
                "sent an event that is no JSON: key must be a string at line 1 column 2",
            ),
            (
                vec![b"data: {}\n\n: ping\n\nevent: x\n\n"],
                "ended the stream before the answer was whole",
            ),
            (
                vec![b"data: \"\xff\"\n\n"],
                "sent a stream that can't be read: utf8 parse error: invalid utf-8 sequence of 1 \
                 bytes from index 1",
            ),
        ];
        for (pieces, what) in table {
            let failure = Failure::new(ErrorClass::Network, what);
            assert_eq!(events_of(pieces, Nothing), [Err(failure)]);
        }
    }
}
