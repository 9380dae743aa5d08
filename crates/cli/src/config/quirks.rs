//! `quirks` of a provider: in what a server differs from what is known of it.

use inspan_core::pictures::PictureLimits;
use inspan_providers::{AfterResults, CallIds, NoContent, Quirks, ReasoningField};
use serde::Deserialize;

use super::{ConfigError, Scalar, Source, Text};

/// Quirks as they stand in the file.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawQuirks {
    cache_marks: Option<bool>,
    bearer: Option<bool>,
    output_limit_field: Option<Text>,
    stream_options: Option<bool>,
    reasoning_echo: Option<Text>,
    reasoning_needed: Option<bool>,
    no_content: Option<Text>,
    call_ids: Option<Text>,
    after_results: Option<Text>,
    alternate: Option<bool>,
    encrypted_reasoning: Option<bool>,
    plain_schemas: Option<bool>,
    deferred_tools: Option<bool>,
    sampling_with_effort: Option<bool>,
    seed_field: Option<Text>,
    tools_max: Option<Scalar>,
    pictures: Option<RawPictures>,
    cuts_silently: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawPictures {
    count_max: Option<Scalar>,
    bytes_max: Option<Scalar>,
    side_px_max: Option<Scalar>,
}

/// The quirks with the changes to them.
pub(super) fn lower(
    raw: Option<&RawQuirks>,
    mut quirks: Quirks,
    source: &Source<'_>,
) -> Result<Quirks, ConfigError> {
    let Some(raw) = raw else { return Ok(quirks) };
    let set = |quirk: &mut bool, value: Option<bool>| *quirk = value.unwrap_or(*quirk);
    set(&mut quirks.cache_marks, raw.cache_marks);
    set(&mut quirks.bearer, raw.bearer);
    set(&mut quirks.stream_options, raw.stream_options);
    set(&mut quirks.reasoning_needed, raw.reasoning_needed);
    set(&mut quirks.alternate, raw.alternate);
    set(&mut quirks.encrypted_reasoning, raw.encrypted_reasoning);
    set(&mut quirks.plain_schemas, raw.plain_schemas);
    set(&mut quirks.deferred_tools, raw.deferred_tools);
    set(&mut quirks.sampling_with_effort, raw.sampling_with_effort);
    set(&mut quirks.cuts_silently, raw.cuts_silently);
    if let Some(field) = &raw.output_limit_field {
        let known = ["max_tokens", "max_completion_tokens"].map(|name| (name, name));
        quirks.output_limit_field = source.one_of("output_limit_field", field, &known)?;
    }
    if let Some(field) = &raw.seed_field {
        let known = ["seed", "random_seed"].map(|name| (name, name));
        quirks.seed_field = source.one_of("seed_field", field, &known)?;
    }
    if let Some(field) = &raw.reasoning_echo {
        let known = ReasoningField::ALL.map(|field| (field.name(), Some(field)));
        let known = [&known[..], &[("none", None)]].concat();
        quirks.reasoning_echo = source.one_of("reasoning_echo", field, &known)?;
    }
    if let Some(form) = &raw.no_content {
        let known = [
            ("null", NoContent::Null),
            ("empty", NoContent::Empty),
            ("missing", NoContent::Missing),
        ];
        quirks.no_content = source.one_of("no_content", form, &known)?;
    }
    if let Some(form) = &raw.call_ids {
        let known = [("ours", CallIds::Ours), ("nine", CallIds::Nine)];
        quirks.call_ids = source.one_of("call_ids", form, &known)?;
    }
    if let Some(place) = &raw.after_results {
        let known = [("separate", AfterResults::Separate), ("joined", AfterResults::Joined)];
        quirks.after_results = source.one_of("after_results", place, &known)?;
    }
    quirks.tools_max =
        source.figure("tools_max", raw.tools_max.as_ref())?.unwrap_or(quirks.tools_max);
    if let Some(pictures) = &raw.pictures {
        quirks.pictures = self::pictures(pictures, quirks.pictures, source)?;
    }
    Ok(quirks)
}

fn pictures(
    raw: &RawPictures,
    before: PictureLimits,
    source: &Source<'_>,
) -> Result<PictureLimits, ConfigError> {
    let count_max = source.figure("count_max", raw.count_max.as_ref())?;
    let bytes_max = source.figure("bytes_max", raw.bytes_max.as_ref())?;
    let side_px_max = source.figure("side_px_max", raw.side_px_max.as_ref())?;
    Ok(PictureLimits {
        count_max: count_max.unwrap_or(before.count_max),
        bytes_max: bytes_max.unwrap_or(before.bytes_max),
        side_px_max: side_px_max.unwrap_or(before.side_px_max),
    })
}
