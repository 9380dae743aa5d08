//! What a picture is, told from its bytes, and pictures made smaller. A heavy library, kept apart.

use std::io::Cursor;

use image::{
    DynamicImage, ImageFormat, ImageReader, Limits, codecs::jpeg::JpegEncoder, imageops::FilterType,
};
use inspan_core::pictures::{Fit, PictureLimits};

/// Bytes that the pixels of one picture may take while it is looked at.
const PIXEL_BYTES_MAX: u64 = 512 << 20;

/// Pixels of the longer side below which a picture is not made smaller to save bytes.
const SIDE_PX_MIN: u32 = 64;

/// What a model can't be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PictureError {
    /// The bytes are no picture, or one that models do not take.
    #[error("it is no PNG, JPEG, GIF or WebP: convert it to one of them")]
    Kind,
    /// It begins like a picture, but can't be read as one.
    #[error("it is damaged, or too large to be read: {0}")]
    Damaged(String),
    /// It can't be made small enough.
    #[error("it can't be made as small as {0} bytes")]
    TooLarge(u64),
}

/// The type of a picture (`image/png`, `image/jpeg`, `image/gif`, `image/webp`), told from its bytes
/// and never from its name.
///
/// # Errors
/// [`PictureError::Kind`], or [`PictureError::Damaged`] when its size can't be read.
pub fn media_type(bytes: &[u8]) -> Result<&'static str, PictureError> {
    let (format, media_type) = kind(bytes)?;
    ImageReader::with_format(Cursor::new(bytes), format).into_dimensions().map_err(damaged)?;
    Ok(media_type)
}

/// Whether a file that begins so can be a picture; 64 bytes are enough to say it.
pub fn is_picture(beginning: &[u8]) -> bool {
    kind(beginning).is_ok()
}

/// Makes pictures smaller. The same bytes and limits always give the same bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shrink;

impl Fit for Shrink {
    fn fit(&self, bytes: &[u8], limits: &PictureLimits) -> Result<Option<Vec<u8>>, String> {
        fit(bytes, limits).map_err(|error| error.to_string())
    }
}

/// The picture within the limits, of the same type; `None` when it is within them as it is. Of one
/// that moves, the first frame is left when it must be made smaller.
///
/// # Errors
/// See [`PictureError`].
pub fn fit(bytes: &[u8], limits: &PictureLimits) -> Result<Option<Vec<u8>>, PictureError> {
    let (format, _) = kind(bytes)?;
    let reader = || ImageReader::with_format(Cursor::new(bytes), format);
    let (width, height) = reader().into_dimensions().map_err(damaged)?;
    let fits = |bytes: usize| u64::try_from(bytes).is_ok_and(|bytes| bytes <= limits.bytes_max);
    if width.max(height) <= limits.side_px_max && fits(bytes.len()) {
        return Ok(None);
    }
    let mut reader = reader();
    let mut memory = Limits::default();
    memory.max_alloc = Some(PIXEL_BYTES_MAX);
    reader.limits(memory);
    let whole = reader.decode().map_err(damaged)?;
    let mut side = width.max(height).min(limits.side_px_max);
    loop {
        let smaller = match side < width.max(height) {
            true => whole.resize(side, side, FilterType::CatmullRom),
            false => whole.clone(),
        };
        let written = write(&smaller, format)?;
        if fits(written.len()) {
            return Ok(Some(written));
        }
        side = side / 4 * 3;
        if side < SIDE_PX_MIN {
            return Err(PictureError::TooLarge(limits.bytes_max));
        }
    }
}

fn kind(bytes: &[u8]) -> Result<(ImageFormat, &'static str), PictureError> {
    match image::guess_format(bytes) {
        Ok(format @ ImageFormat::Png) => Ok((format, "image/png")),
        Ok(format @ ImageFormat::Jpeg) => Ok((format, "image/jpeg")),
        Ok(format @ ImageFormat::Gif) => Ok((format, "image/gif")),
        Ok(format @ ImageFormat::WebP) => Ok((format, "image/webp")),
        Ok(_) | Err(_) => Err(PictureError::Kind),
    }
}

fn write(picture: &DynamicImage, format: ImageFormat) -> Result<Vec<u8>, PictureError> {
    /// Of 100: where people see no difference.
    const QUALITY: u8 = 85;
    let mut written = Cursor::new(Vec::new());
    match format {
        ImageFormat::Jpeg => picture
            .to_rgb8()
            .write_with_encoder(JpegEncoder::new_with_quality(&mut written, QUALITY)),
        ImageFormat::Gif | ImageFormat::WebP => {
            DynamicImage::from(picture.to_rgba8()).write_to(&mut written, format)
        }
        format => picture.write_to(&mut written, format),
    }
    .map_err(damaged)?;
    Ok(written.into_inner())
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that `map_err` takes")]
fn damaged(error: image::ImageError) -> PictureError {
    PictureError::Damaged(error.to_string())
}

#[cfg(test)]
mod tests {
    use image::{Rgb, RgbImage};

    use super::*;

    const KINDS: [(ImageFormat, &str); 4] = [
        (ImageFormat::Png, "image/png"),
        (ImageFormat::Jpeg, "image/jpeg"),
        (ImageFormat::Gif, "image/gif"),
        (ImageFormat::WebP, "image/webp"),
    ];

    /// A picture in which no two pixels beside each other are alike.
    fn picture(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
        let pixel = |x: u32, y: u32| {
            let mixed = x.wrapping_mul(2_654_435_761).wrapping_add(y).wrapping_mul(y ^ 40_503);
            Rgb([mixed as u8, (mixed >> 8) as u8, (mixed >> 16) as u8])
        };
        let picture = RgbImage::from_fn(width, height, |x, y| pixel(x % 97, y % 89));
        write(&picture.into(), format).unwrap()
    }

    fn size(bytes: &[u8]) -> (u32, u32) {
        ImageReader::new(Cursor::new(bytes))
            .with_guessed_format()
            .unwrap()
            .into_dimensions()
            .unwrap()
    }

    const LIMITS: PictureLimits =
        PictureLimits { count_max: 1, bytes_max: 1_000_000, side_px_max: 100 };

    #[test]
    fn the_type_is_told_from_the_bytes() {
        for (format, expected) in KINDS {
            assert_eq!(media_type(&picture(5, 4, format)), Ok(expected));
        }
        for other in [&b"BM not ours"[..], b"%PDF-1.7", b"<svg/>", b""] {
            assert_eq!(media_type(other), Err(PictureError::Kind));
        }
        let cut = &picture(5, 4, ImageFormat::Png)[..20];
        assert!(matches!(media_type(cut), Err(PictureError::Damaged(_))));
        assert!(matches!(fit(cut, &LIMITS), Err(PictureError::Damaged(_))));
    }

    #[test]
    fn a_picture_is_made_as_small_as_it_must_be() {
        for (format, expected) in KINDS {
            assert_eq!(fit(&picture(100, 80, format), &LIMITS), Ok(None));
            let large = picture(300, 150, format);
            let small = fit(&large, &LIMITS).unwrap().unwrap();
            assert_eq!((media_type(&small), size(&small)), (Ok(expected), (100, 50)));
            assert_eq!(fit(&large, &LIMITS).unwrap(), Some(small));
        }
    }

    #[test]
    fn bytes_are_saved_too_as_far_as_that_goes() {
        let large = picture(400, 400, ImageFormat::Png);
        let bytes_max = large.len() as u64 / 4;
        let limits = PictureLimits { bytes_max, side_px_max: 8_000, ..LIMITS };
        let small = fit(&large, &limits).unwrap().unwrap();
        assert!(small.len() as u64 <= bytes_max && size(&small).0 >= SIDE_PX_MIN);
        let none = PictureLimits { bytes_max: 10, ..limits };
        assert_eq!(fit(&large, &none), Err(PictureError::TooLarge(10)));
    }
}
