//! Pictures within what a provider takes: how large, and how many.

use std::collections::BTreeSet;

use crate::{
    hash::Hash,
    message::{Content, ImageRef},
    prompt::Message,
};

/// What one provider takes. A picture beyond `bytes_max` or `side_px_max` is made smaller when a
/// request is built; of more than `count_max`, the oldest become notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PictureLimits {
    /// Pictures in one request.
    pub count_max: u32,
    /// Bytes of one picture, before base64.
    pub bytes_max: u64,
    /// The longer side of one picture in pixels.
    pub side_px_max: u32,
}

impl Default for PictureLimits {
    /// What the servers that say nothing about it are known to take: 5 MB in base64 each, as large
    /// as models look at them, and 20 of them.
    fn default() -> Self {
        Self { count_max: 20, bytes_max: 3_750_000, side_px_max: 2_000 }
    }
}

/// Makes pictures smaller.
pub trait Fit: Send + Sync {
    /// The picture within `limits`, of the same type; `None` when it is within them as it is. The
    /// same bytes and limits always give the same bytes. Takes time: not for an async task.
    ///
    /// # Errors
    /// Why it can't be shown, in words for the model.
    fn fit(&self, bytes: &[u8], limits: &PictureLimits) -> Result<Option<Vec<u8>>, String>;
}

/// The pictures to leave out of a request with these messages, which may hold `count_max`: those
/// that were last shown longest ago. Where any must go, half of `count_max` stays, so that the
/// request is rendered anew once in many pictures, not with each. Empty when all may stay.
///
/// A picture goes wherever it stands, so the same picture twice counts twice.
pub fn too_many<'a>(
    messages: impl IntoIterator<Item = &'a Message>,
    count_max: u32,
) -> BTreeSet<Hash> {
    let shown: Vec<Hash> =
        messages.into_iter().flat_map(pictures_of).map(|image| image.hash).collect();
    let mut left_out = BTreeSet::new();
    let count_max = usize::try_from(count_max).unwrap_or(usize::MAX);
    if shown.len() <= count_max {
        return left_out;
    }
    let mut stay = BTreeSet::new();
    let mut room = count_max.div_ceil(2);
    for hash in shown.iter().rev() {
        if stay.contains(hash) || left_out.contains(hash) {
            continue;
        }
        let times = shown.iter().filter(|other| *other == hash).count();
        // From the first that does not fit on, all go: no older one is shown without it.
        if left_out.is_empty() && times <= room {
            room -= times;
            stay.insert(*hash);
        } else {
            left_out.insert(*hash);
        }
    }
    left_out
}

/// The pictures of a message in the order in which providers read them: results first.
pub fn pictures_of(message: &Message) -> impl Iterator<Item = &ImageRef> {
    let user = match message {
        Message::User(user) => Some(user),
        Message::Assistant(_) => None,
    };
    let contents = user.into_iter().flat_map(|user| {
        user.results.iter().flat_map(|result| &result.result.content).chain(&user.content)
    });
    contents.filter_map(|content| match content {
        Content::Image(image) => Some(image),
        Content::Text { .. } => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        message::{CallId, How, ToolResult},
        prompt::{CallResult, UserMessage},
    };

    fn picture(number: u8) -> Content {
        Content::Image(ImageRef {
            hash: Hash([number; 32]),
            media_type: "image/png".to_owned(),
            size_bytes: 1,
        })
    }

    /// A message for each list: a result with its first picture, a prompt with the others.
    fn messages(pictures: &[&[u8]]) -> Vec<Message> {
        let message = |pictures: &&[u8]| {
            let (first, others) = pictures.split_at(pictures.len().min(1));
            let content = |numbers: &[u8]| numbers.iter().copied().map(picture).collect();
            let result = CallResult {
                call: CallId::new(1, 0),
                name: "look".to_owned(),
                how: How::Ok,
                result: ToolResult { content: content(first), ..ToolResult::default() },
            };
            Message::User(UserMessage { results: vec![result], content: content(others) })
        };
        pictures.iter().map(message).collect()
    }

    #[test]
    fn those_shown_longest_ago_go_and_then_there_is_room() {
        type Row = (&'static [&'static [u8]], u32, &'static [u8]);
        let table: [Row; 9] = [
            (&[], 0, &[]),
            (&[&[1, 2], &[3]], 3, &[]),
            (&[&[1, 2], &[3, 4]], 3, &[1, 2]),
            (&[&[1], &[2], &[3], &[4], &[5]], 4, &[1, 2, 3]),
            (&[&[1, 2]], 1, &[1]),
            (&[&[1, 2]], 0, &[1, 2]),
            // One that was shown again is young; it takes two places.
            (&[&[1], &[2], &[3], &[1]], 3, &[2, 3]),
            // One that takes more than there are goes, and so do the older ones.
            (&[&[1], &[2, 2, 2], &[3]], 4, &[1, 2]),
            (&[&[1, 1, 1]], 2, &[1]),
        ];
        for (pictures, count_max, left_out) in table {
            let expected = left_out.iter().map(|number| Hash([*number; 32])).collect();
            let found = too_many(&messages(pictures), count_max);
            assert_eq!(found, expected, "{pictures:?} {count_max}");
        }
    }
}
