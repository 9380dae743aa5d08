//! The output of a program in bounded memory: its beginning and its end, whatever lies between.

use std::{
    collections::VecDeque,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use inspan_core::{
    budget::{RESULT_BYTES_MAX, SPILLED_BYTES_MAX},
    mask::Mask,
};

/// Bytes that the line about what was left out may take.
const NOTE_BYTES_MAX: usize = 64;

/// Bytes kept beyond each edge and never shown: a secret up to this length that the edge cuts is
/// still whole when it is masked.
const EDGE_BYTES: usize = 4 * 1024;

/// Bytes of the end of a call's error output that are kept.
const ERROR_BYTES_MAX: usize = 4 * 1024;

/// The text of a result as it is kept: masked, of at most `bytes_max` bytes.
pub(crate) fn for_the_log(text: &str, bytes_max: usize, mask: &Mask) -> String {
    if text.len() <= bytes_max {
        return mask.text(text).into_owned();
    }
    let mut capped = Capped::ends(bytes_max);
    capped.push(text.as_bytes());
    capped.into_text(mask)
}

/// Does work that takes time for a long text where it holds up nobody.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends, and this with it.
            Err(_) => std::future::pending().await,
        },
    }
}

/// What a call has written so far. It is kept outside of the call's future, which may be dropped in
/// the middle. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Written(Arc<Mutex<Both>>);

#[derive(Debug)]
struct Both {
    output: Capped,
    errors: Capped,
}

impl Default for Written {
    fn default() -> Self {
        let output = Capped::ends(SPILLED_BYTES_MAX);
        Self(Arc::new(Mutex::new(Both { output, errors: Capped::end(ERROR_BYTES_MAX) })))
    }
}

impl Written {
    /// No code of ours panics while it holds the lock, so a poisoned one is as good as any.
    fn both(&self) -> MutexGuard<'_, Both> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next bytes of the output.
    #[cfg(feature = "command")]
    pub(super) fn push_output(&self, bytes: &[u8]) {
        self.both().output.push(bytes);
    }

    /// Takes the next bytes of the error output.
    #[cfg(feature = "command")]
    pub(super) fn push_errors(&self, bytes: &[u8]) {
        self.both().errors.push(bytes);
    }

    /// Takes out what was written: the output and the end of the error output.
    pub(super) fn take(&self) -> (Capped, Capped) {
        let Both { output, errors } = mem::take(&mut *self.both());
        (output, errors)
    }

    /// What was written, masked; empty when it was nothing.
    pub(crate) async fn into_text(self, mask: &Mask) -> String {
        let (output, errors) = self.take();
        let (output, errors) = (output.into_text_aside(mask).await, errors.into_text(mask));
        let texts = [output.trim_end(), errors.trim_end()];
        let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        texts.join("\n")
    }
}

impl Default for Both {
    fn default() -> Self {
        Self { output: Capped::end(0), errors: Capped::end(0) }
    }
}

/// Bytes as they come, of which the first and the last are kept.
#[derive(Debug)]
pub(super) struct Capped {
    head_max: usize,
    tail_max: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl Capped {
    /// Keeps the beginning and the end, which make a text of at most `bytes_max` bytes.
    fn ends(bytes_max: usize) -> Self {
        let half = bytes_max / 2;
        Self::new(half, half.saturating_sub(NOTE_BYTES_MAX))
    }

    /// Keeps the last `bytes_max` bytes only.
    fn end(bytes_max: usize) -> Self {
        Self::new(0, bytes_max)
    }

    fn new(head_max: usize, tail_max: usize) -> Self {
        Self { head_max, tail_max, head: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    /// Takes the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.head_kept() - self.head.len();
        let (head, tail) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        let tail = &tail[tail.len().saturating_sub(self.tail_kept())..];
        let over = (self.tail.len() + tail.len()).saturating_sub(self.tail_kept());
        self.tail.drain(..over);
        self.tail.extend(tail);
    }

    /// [`Capped::into_text`], which takes time when it is long.
    pub(super) async fn into_text_aside(self, mask: &Mask) -> String {
        if self.total <= RESULT_BYTES_MAX as u64 {
            return self.into_text(mask);
        }
        let mask = mask.clone();
        aside(move || self.into_text(&mask)).await
    }

    /// The masked text, in which a line says how many bytes were left out, if any were. A byte
    /// that is not UTF-8 becomes U+FFFD; no character is cut.
    pub(super) fn into_text(mut self, mask: &Mask) -> String {
        let text = |bytes: &[u8]| mask.text(&String::from_utf8_lossy(bytes)).into_owned();
        let tail = self.tail.make_contiguous();
        let between = self.total - (self.head.len() + tail.len()) as u64;
        let (head, tail) = if between == 0 {
            let whole = text(&[&self.head, &*tail].concat());
            if whole.len() <= self.head_max + self.tail_max {
                return whole;
            }
            (first(&whole, self.head_max).to_owned(), last(&whole, self.tail_max).to_owned())
        } else {
            let (head, tail) = (text(without_cut_end(&self.head)), text(without_cut_start(tail)));
            let head_max = self.head_max.min(head.len().saturating_sub(EDGE_BYTES));
            let tail_max = self.tail_max.min(tail.len().saturating_sub(EDGE_BYTES));
            (first(&head, head_max).to_owned(), last(&tail, tail_max).to_owned())
        };
        let left_out = self.total.saturating_sub((head.len() + tail.len()) as u64);
        let break_before = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
        format!("{head}{break_before}[{left_out} bytes left out here]\n{tail}")
    }

    fn head_kept(&self) -> usize {
        if self.head_max == 0 { 0 } else { self.head_max + EDGE_BYTES }
    }

    fn tail_kept(&self) -> usize {
        self.tail_max + EDGE_BYTES
    }
}

/// What the output of a program needs.
#[cfg(feature = "command")]
impl Capped {
    /// Whether more came than is kept.
    pub(super) fn is_cut(&self) -> bool {
        self.total > (self.head_max + self.tail_max) as u64
    }

    /// All bytes, unless [`Capped::is_cut`].
    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        self.head.extend(self.tail);
        self.head
    }
}

/// The first `bytes_max` bytes, less a character that would be cut.
fn first(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or(text)
}

/// The last `bytes_max` bytes, less a character that would be cut.
fn last(text: &str, bytes_max: usize) -> &str {
    let start = text.len().saturating_sub(bytes_max);
    text.get(text.ceil_char_boundary(start)..).unwrap_or(text)
}

/// The bytes without the beginning of a character that was cut off at their end.
fn without_cut_end(bytes: &[u8]) -> &[u8] {
    for back in 1..=bytes.len().min(3) {
        let at = bytes.len() - back;
        let whole = match bytes[at] {
            0x80..=0xbf => continue,
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf7 => 4,
            _ => 1,
        };
        return if whole > back { &bytes[..at] } else { bytes };
    }
    bytes
}

/// The bytes without the rest of a character that was cut off at their beginning.
fn without_cut_start(bytes: &[u8]) -> &[u8] {
    let rest = bytes.iter().take(3).take_while(|b| matches!(b, 0x80..=0xbf)).count();
    &bytes[rest..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends() -> Capped {
        Capped::ends(RESULT_BYTES_MAX)
    }

    fn capped(mut capped: Capped, bytes: &[u8], chunk: usize) -> Capped {
        bytes.chunks(chunk).for_each(|chunk| capped.push(chunk));
        capped
    }

    fn text(bytes: &[u8], chunk: usize) -> String {
        capped(ends(), bytes, chunk).into_text(&Mask::default())
    }

    #[test]
    fn short_output_is_whole() {
        assert_eq!(text(b"", 1), "");
        assert_eq!(text("größe\n".as_bytes(), 1), "größe\n");
        assert_eq!(text(b"a\xff\xfeb", 3), "a\u{fffd}\u{fffd}b");
        let full = "x".repeat(ends().head_max + ends().tail_max);
        assert_eq!(text(full.as_bytes(), 1000), full);
    }

    #[test]
    fn long_output_keeps_head_and_tail() {
        let (head_max, tail_max) = (ends().head_max, ends().tail_max);
        for chunk in [1, 7, 4096, 1 << 20] {
            let bytes = [vec![b'a'; 100_000], vec![b'b'; 100_000]].concat();
            let left_out = 200_000 - head_max - tail_max;
            let expected = format!(
                "{}\n[{left_out} bytes left out here]\n{}",
                "a".repeat(head_max),
                "b".repeat(tail_max)
            );
            assert_eq!(text(&bytes, chunk), expected);
        }
    }

    #[test]
    fn no_character_is_cut_and_the_text_stays_within_the_limit() {
        for pad in 0..4 {
            let inputs = [
                "é".repeat(60_000).into_bytes(),
                "🦀".repeat(60_000).into_bytes(),
                "日".repeat(22_000).into_bytes(),
                // Each of these bytes becomes three.
                vec![0xff; 40_000],
            ];
            for input in inputs {
                let invalid = input[0] == 0xff;
                let bytes = [&b"abc"[..pad], &input].concat();
                let text = text(&bytes, 999);
                assert!(text.len() <= RESULT_BYTES_MAX, "{}", text.len());
                assert_eq!(text.contains('\u{fffd}'), invalid);
            }
        }
    }

    #[test]
    fn a_secret_at_an_edge_is_masked_whole() {
        let mask = Mask::new(["s3cret-s3cret-s3cret".to_owned()]);
        let (head_max, tail_max) = (ends().head_max, ends().tail_max);
        for shift in 0..24 {
            let mut bytes = vec![b'.'; 200_000];
            let tail_at = bytes.len() - tail_max - shift;
            for at in [head_max - shift, head_max + EDGE_BYTES - shift, tail_at] {
                bytes[at..at + 20].copy_from_slice(b"s3cret-s3cret-s3cret");
            }
            let text = capped(ends(), &bytes, 4096).into_text(&mask);
            assert!(!text.contains("3c") && !text.contains("et"), "shift {shift}");
        }
    }

    #[test]
    fn the_end_alone() {
        let bytes = [vec![b'a'; 10_000], b"last words".to_vec()].concat();
        let text = capped(Capped::end(10), &bytes, 100).into_text(&Mask::default());
        assert_eq!(text, "[10000 bytes left out here]\nlast words");
    }
}
