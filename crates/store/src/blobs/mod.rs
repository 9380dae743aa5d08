//! Where blobs are kept: in a folder, in memory, or in a store that speaks the protocol of S3.

mod files;
#[cfg(feature = "s3")]
mod s3;
mod sweep;
mod watched;

pub use files::Files;
#[cfg(feature = "s3")]
pub use s3::{S3, S3Place};
pub use sweep::{Swept, sweep};
pub use watched::{Told, Watched};

use std::sync::Arc;

use inspan_core::hash::Hash;

/// The folder of a blob: the first two digits of its name.
fn shelf_of(hash: &Hash) -> String {
    format!("{:02x}", hash.0[0])
}

/// What was made of a blob, behind the hash of its bytes: its name says nothing of them.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    [&Hash::of_bytes(bytes).0[..], bytes].concat()
}

/// The bytes behind their hash; `None` when they are not those.
fn unsealed(sealed: &[u8]) -> Option<Arc<[u8]>> {
    let (hash, bytes) = sealed.split_first_chunk::<32>()?;
    (Hash::of_bytes(bytes) == Hash(*hash)).then(|| bytes.into())
}
