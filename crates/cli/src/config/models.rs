//! `models` of `config.yaml` and `agent.yaml`: what nobody else knows of a model, how it is asked, and who answers in
//! its place.

use std::collections::BTreeMap;

use inspan_core::budget::Price;
use inspan_providers::{Effort, Server, Settings, SettingsError};
use serde::Deserialize;
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

use super::{ConfigError, Figure, Positive, Scalar, Source, Text, Usd, check};

/// What is said of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ModelFacts {
    /// Its window in tokens.
    pub window_tokens_max: Option<u64>,
    /// The most tokens that one reply of it can have.
    pub output_tokens_max: Option<u32>,
    /// Its price.
    pub price: Option<Price>,
    /// How it is asked.
    pub settings: Settings,
    /// The models that answer in its place, one after the other, when its server fails for good.
    pub fallback: Vec<String>,
}

impl ModelFacts {
    /// These facts, each that is missing as it is in `other`.
    pub(crate) fn or(self, other: Self) -> Self {
        let list = |own: Vec<String>, other| if own.is_empty() { other } else { own };
        let (own, others) = (self.settings, other.settings);
        Self {
            window_tokens_max: self.window_tokens_max.or(other.window_tokens_max),
            output_tokens_max: self.output_tokens_max.or(other.output_tokens_max),
            price: self.price.or(other.price),
            settings: Settings {
                effort: own.effort.or(others.effort),
                temperature: own.temperature.or(others.temperature),
                top_p: own.top_p.or(others.top_p),
                stop: list(own.stop, others.stop),
                seed: own.seed.or(others.seed),
                extra: if own.extra.is_empty() { others.extra } else { own.extra },
            },
            fallback: list(self.fallback, other.fallback),
        }
    }
}

/// `models` as it stands in a file: models by their URL.
pub(crate) type RawModels = BTreeMap<String, Spanned<RawModel>>;

/// A model as it stands in the file.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawModel {
    window_tokens_max: Option<Scalar>,
    output_tokens_max: Option<Scalar>,
    price: Option<Spanned<RawPrice>>,
    effort: Option<Text>,
    temperature: Option<Scalar>,
    top_p: Option<Scalar>,
    stop: Option<Vec<Text>>,
    seed: Option<Scalar>,
    extra: Option<Spanned<Map<String, Value>>>,
    fallback: Option<Vec<Text>>,
}

/// In US dollars for a million tokens.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawPrice {
    input: Option<Scalar>,
    output: Option<Scalar>,
    cache_read: Option<Scalar>,
    cache_write: Option<Scalar>,
}

/// What the file says of each model, by its URL.
pub(crate) fn lower(
    raw: Option<RawModels>,
    source: &Source<'_>,
    servers: &[Server],
) -> Result<BTreeMap<String, ModelFacts>, ConfigError> {
    let mut models = BTreeMap::new();
    for (url, raw) in raw.unwrap_or_default() {
        check(&url, &url, servers).map_err(|why| source.wrong(&raw, why))?;
        let RawModel { window_tokens_max, output_tokens_max, price, .. } = &raw.value;
        let settings = settings(&raw.value, source)?;
        if let Ok((server, _)) = Server::find(&url, servers) {
            server.with(&settings).map_err(|why| refused(&raw, &why, source))?;
        }
        let facts = ModelFacts {
            window_tokens_max: source
                .figure("window_tokens_max", window_tokens_max.as_ref())?
                .map(|Positive(tokens)| tokens),
            output_tokens_max: source
                .figure("output_tokens_max", output_tokens_max.as_ref())?
                .map(|Positive(tokens)| tokens),
            price: price.as_ref().map(|price| self::price(price, source)).transpose()?,
            settings,
            fallback: fallback(&url, &raw.value, source, servers)?,
        };
        models.insert(url, facts);
    }
    Ok(models)
}

fn settings(raw: &RawModel, source: &Source<'_>) -> Result<Settings, ConfigError> {
    let efforts = Effort::ALL.map(|effort| (effort.as_str(), effort));
    let effort = raw.effort.as_ref().map(|word| source.one_of("effort", word, &efforts));
    let stop = raw.stop.iter().flatten().map(|text| source.sent_text(text));
    let temperature: Option<UpTo<2>> = source.figure("temperature", raw.temperature.as_ref())?;
    let top_p: Option<UpTo<1>> = source.figure("top_p", raw.top_p.as_ref())?;
    Ok(Settings {
        effort: effort.transpose()?,
        temperature: temperature.map(|UpTo(number)| number),
        top_p: top_p.map(|UpTo(number)| number),
        stop: stop.collect::<Result<_, _>>()?,
        seed: source.figure("seed", raw.seed.as_ref())?,
        extra: match &raw.extra {
            Some(extra) => source.object(extra)?,
            None => Map::new(),
        },
    })
}

/// The error at the setting that it names.
fn refused(raw: &Spanned<RawModel>, why: &SettingsError, source: &Source<'_>) -> ConfigError {
    let text = why.to_string();
    let RawModel { effort, temperature, top_p, stop, seed, extra, .. } = &raw.value;
    let name = text.split(':').next().unwrap_or_default();
    match name {
        "effort" => effort.as_ref().map(|at| source.wrong(at, &text)),
        "temperature" => temperature.as_ref().map(|at| source.wrong(at, &text)),
        "top_p" => top_p.as_ref().map(|at| source.wrong(at, &text)),
        "stop" => stop.iter().flatten().next().map(|at| source.wrong(at, &text)),
        "seed" => seed.as_ref().map(|at| source.wrong(at, &text)),
        "extra" => extra.as_ref().map(|at| source.wrong(at, &text)),
        _ => None,
    }
    .unwrap_or_else(|| source.wrong(raw, &text))
}

/// Models of known servers, each once, and not the one that they answer for.
fn fallback(
    url: &str,
    raw: &RawModel,
    source: &Source<'_>,
    servers: &[Server],
) -> Result<Vec<String>, ConfigError> {
    let mut models: Vec<String> = Vec::new();
    for text in raw.fallback.iter().flatten() {
        let model = source.text(text)?;
        check(&model, &text.value, servers)
            .map_err(|why| source.wrong(text, format!("fallback: {why}")))?;
        if model == url || models.contains(&model) {
            let why = format!("fallback: `{}` stands there already", text.value);
            return Err(source.wrong(text, why));
        }
        models.push(model);
    }
    Ok(models)
}

/// What is not told of the cache costs as much as other input.
fn price(raw: &Spanned<RawPrice>, source: &Source<'_>) -> Result<Price, ConfigError> {
    let tier = |key, scalar: &Option<Scalar>| {
        let price: Option<Usd> = source.figure(key, scalar.as_ref())?;
        Ok(price.map(Usd::nano_usd_per_token))
    };
    let needed = |key: &str, price: Option<u64>| {
        price.ok_or_else(|| source.wrong(raw, format!("a price needs `{key}`")))
    };
    let RawPrice { input, output, cache_read, cache_write } = &raw.value;
    let input = needed("input", tier("input", input)?)?;
    Ok(Price {
        input,
        output: needed("output", tier("output", output)?)?,
        cache_read: tier("cache_read", cache_read)?.unwrap_or(input),
        cache_write: tier("cache_write", cache_write)?.unwrap_or(input),
    })
}

/// A number from 0 to `MOST`, which is sent as it is written.
struct UpTo<const MOST: u8>(Number);

impl<const MOST: u8> Figure for UpTo<MOST> {
    fn read(text: &str) -> Result<Self, String> {
        let number: Option<Number> = serde_json::from_str(text).ok();
        let fits = |number: &Number| {
            number.as_f64().is_some_and(|number| (0.0..=f64::from(MOST)).contains(&number))
        };
        number.filter(fits).map(Self).ok_or_else(|| format!("is not a number from 0 to {MOST}"))
    }
}
