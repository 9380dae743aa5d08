//! `blobs` of `config.yaml`: a bucket for pictures and long results, in place of the folder beside
//! the database.

use std::fmt;

use inspan_store::S3Place;
use secrecy::{ExposeSecret, SecretString};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_saphyr::Spanned;

use super::{ConfigError, Source, Text, Variables};

/// The bucket as it stands in the file: its address, or a section.
pub(super) enum RawBlobs {
    Url(String),
    Section(RawSection),
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawSection {
    url: Option<Text>,
    endpoint: Option<Text>,
    region: Option<Text>,
    access_key: Option<Text>,
    secret_key: Option<Text>,
    session_token: Option<Text>,
    sweep: bool,
}

impl RawBlobs {
    /// Whether what no session names may be removed from it.
    pub(super) fn sweeps(&self) -> bool {
        match self {
            Self::Url(_) => false,
            Self::Section(section) => section.sweep,
        }
    }
}

impl<'de> Deserialize<'de> for RawBlobs {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = RawBlobs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("s3://BUCKET/PREFIX, or a section with `url`")
            }

            fn visit_str<E: serde::de::Error>(self, url: &str) -> Result<RawBlobs, E> {
                Ok(RawBlobs::Url(url.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawBlobs, A::Error> {
                RawSection::deserialize(MapAccessDeserializer::new(map)).map(RawBlobs::Section)
            }
        }
        from.deserialize_any(Either)
    }
}

/// The bucket, if there is one. What the file does not say is asked of the variables that other
/// programs read for it, too.
pub(super) fn place(
    raw: Option<Spanned<RawBlobs>>,
    source: &Source<'_>,
    variables: &Variables,
) -> Result<Option<S3Place>, ConfigError> {
    let Some(raw) = raw else { return Ok(None) };
    let none = RawSection::default();
    let (written, section) = match &raw.value {
        RawBlobs::Url(url) => (url.clone(), &none),
        RawBlobs::Section(section) => {
            let url = section.url.as_ref();
            let url = url.ok_or_else(|| source.wrong(&raw, "`blobs` needs `url`"))?;
            (url.value.clone(), section)
        }
    };
    let url = source.text(&Spanned {
        value: written.clone(),
        referenced: raw.referenced,
        defined: raw.defined,
    })?;
    let (bucket, prefix) = S3Place::bucket_and_prefix(&url).ok_or_else(|| {
        source.wrong(&raw, format!("blobs: `{written}` is no bucket: write s3://BUCKET/PREFIX"))
    })?;
    let given = |text: &Option<Text>, names: &[&str]| match text {
        Some(text) => source.sent_text(text).map(Some),
        None => Ok(names.iter().find_map(|name| variables.get(name)).filter(|v| !v.is_empty())),
    };
    let needed = |key: &str, name: &str, found: Option<String>| {
        let why = || format!("a bucket needs `{key}`, or the variable {name}");
        found.ok_or_else(|| source.wrong(&raw, why()))
    };
    let access_key = given(&section.access_key, &["AWS_ACCESS_KEY_ID"])?;
    let secret_key = given(&section.secret_key, &["AWS_SECRET_ACCESS_KEY"])?;
    // A token belongs to the keys that it comes with.
    let token_names: &[&str] =
        if section.secret_key.is_none() { &["AWS_SESSION_TOKEN"] } else { &[] };
    let endpoint = given(&section.endpoint, &["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"])?;
    let is_address = |url: &String| url.starts_with("http://") || url.starts_with("https://");
    if !endpoint.iter().all(is_address) {
        return Err(source.wrong(&raw, "endpoint: write http://HOST or https://HOST"));
    }
    Ok(Some(S3Place {
        bucket: bucket.to_owned(),
        prefix: prefix.to_owned(),
        endpoint,
        region: given(&section.region, &["AWS_REGION", "AWS_DEFAULT_REGION"])?
            .unwrap_or_else(|| "us-east-1".to_owned()),
        access_key: needed("access_key", "AWS_ACCESS_KEY_ID", access_key)?,
        secret_key: needed("secret_key", "AWS_SECRET_ACCESS_KEY", secret_key)?.into(),
        session_token: given(&section.session_token, token_names)?.map(SecretString::from),
    }))
}

/// The secrets of the bucket.
pub(super) fn keys(place: Option<&S3Place>) -> impl Iterator<Item = String> {
    let secrets = place.into_iter().flat_map(|place| {
        [Some(&place.secret_key), place.session_token.as_ref()].into_iter().flatten()
    });
    secrets.map(|secret| secret.expose_secret().to_owned())
}
