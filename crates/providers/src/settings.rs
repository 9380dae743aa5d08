//! How one model is asked: how much it reasons and how it picks its words, in the fields of its
//! wire. What is not set is not sent; a zero is.

use serde_json::{Map, Number, Value, json};

use crate::{
    anthropic, openai, responses,
    server::{Server, Wire},
};

/// Settings of one model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// How much it reasons.
    pub effort: Option<Effort>,
    /// How freely it picks its words: 0 to 2, and to 1 on some servers.
    pub temperature: Option<Number>,
    /// From which share of the likeliest words it picks: 0 to 1.
    pub top_p: Option<Number>,
    /// Texts at which it stops.
    pub stop: Vec<String>,
    /// Where its chance begins.
    pub seed: Option<u64>,
    /// More fields of the request's body, as they are.
    pub extra: Map<String, Value>,
}

/// How much a model reasons. Not every model knows every one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Not at all.
    None,
    /// As little as it can.
    Minimal,
    /// Little.
    Low,
    /// As usual.
    Medium,
    /// Much.
    High,
    /// More.
    XHigh,
    /// As much as it can.
    Max,
}

/// A setting that can't be sent. Each names the setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The wire has no field for it.
    #[error("{setting}: {wire} has none; leave it out")]
    NotThere {
        /// The setting.
        setting: &'static str,
        /// The wire's name.
        wire: &'static str,
    },
    /// The server refuses both together.
    #[error("{setting}: `{server}` refuses it beside `effort`; keep one of them")]
    BesideEffort {
        /// The setting.
        setting: &'static str,
        /// The server's name.
        server: String,
    },
    /// The wire has other words for it.
    #[error("effort: {wire} knows no `{effort}`; there are: none, low, medium, high, xhigh, max")]
    Effort {
        /// The word.
        effort: &'static str,
        /// The wire's name.
        wire: &'static str,
    },
    /// A field that Inspan writes itself, or that a setting of its own is for.
    #[error("extra: `{field}` can't be set there, because Inspan writes it")]
    Reserved {
        /// The field.
        field: String,
    },
}

impl Effort {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::None, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::XHigh, Self::Max];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
            Self::Max => "max",
        }
    }
}

impl Server {
    /// The server for one model with these settings: their fields stand among the additional ones,
    /// and count before those of the server.
    ///
    /// # Errors
    /// A setting that the wire or the server does not take.
    pub fn with(&self, settings: &Settings) -> Result<Self, SettingsError> {
        let mut server = self.clone();
        server.extra.extend(self.fields(settings)?);
        Ok(server)
    }

    fn fields(&self, settings: &Settings) -> Result<Map<String, Value>, SettingsError> {
        let wire = self.wire;
        let Settings { effort, temperature, top_p, stop, seed, extra } = settings;
        let mut fields = Map::new();
        let mut set = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
        for (setting, value) in [("temperature", temperature), ("top_p", top_p)] {
            let Some(value) = value else { continue };
            if effort.is_some_and(|effort| effort != Effort::None)
                && !self.quirks.sampling_with_effort
            {
                let server = self.name.clone();
                return Err(SettingsError::BesideEffort { setting, server });
            }
            set(setting, Value::Number(value.clone()));
        }
        let not_there = |setting| Err(SettingsError::NotThere { setting, wire: wire.name() });
        match wire {
            _ if stop.is_empty() => {}
            Wire::AnthropicMessages => set("stop_sequences", json!(stop)),
            Wire::OpenAiChat => set("stop", json!(stop)),
            Wire::OpenAiResponses => return not_there("stop"),
        }
        match (wire, seed) {
            (_, None) => {}
            (Wire::OpenAiChat, Some(seed)) => set(self.quirks.seed_field, json!(seed)),
            (Wire::AnthropicMessages | Wire::OpenAiResponses, Some(_)) => return not_there("seed"),
        }
        if let Some(effort) = effort {
            fields.extend(effort_fields(wire, *effort)?);
        }
        if let Some(field) = extra.keys().find(|field| written(wire).contains(&field.as_str())) {
            return Err(SettingsError::Reserved { field: field.clone() });
        }
        fields.extend(extra.clone());
        Ok(fields)
    }
}

fn effort_fields(wire: Wire, effort: Effort) -> Result<Map<String, Value>, SettingsError> {
    let word = effort.as_str();
    let fields = match (wire, effort) {
        (Wire::AnthropicMessages, Effort::Minimal) => {
            return Err(SettingsError::Effort { effort: word, wire: wire.name() });
        }
        (Wire::AnthropicMessages, Effort::None) => json!({"thinking": {"type": "disabled"}}),
        (Wire::AnthropicMessages, _) => {
            json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": word}})
        }
        (Wire::OpenAiChat, _) => json!({"reasoning_effort": word}),
        (Wire::OpenAiResponses, Effort::None) => json!({"reasoning": {"effort": word}}),
        (Wire::OpenAiResponses, _) => json!({"reasoning": {"effort": word, "summary": "auto"}}),
    };
    match fields {
        Value::Object(fields) => Ok(fields),
        _ => Ok(Map::new()),
    }
}

/// The fields that a wire writes itself.
fn written(wire: Wire) -> &'static [&'static str] {
    match wire {
        Wire::AnthropicMessages => &anthropic::FIELDS,
        Wire::OpenAiChat => &openai::FIELDS,
        Wire::OpenAiResponses => &responses::FIELDS,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::key::Lookup;

    fn fields(server: &str, settings: &Settings) -> Result<Value, String> {
        let nothing: Lookup = Arc::new(|_| None);
        let server = Server::like(server, None, &nothing).expect("a known server");
        let server = server.with(settings).map_err(|error| error.to_string())?;
        Ok(Value::Object(server.extra))
    }

    fn number(text: &str) -> Option<Number> {
        serde_json::from_str(text).ok()
    }

    #[test]
    fn settings_are_fields_of_their_wire() {
        let cold =
            || Settings { temperature: number("0"), top_p: number("0.90"), ..Settings::default() };
        let all = Settings { stop: vec!["END".into()], seed: Some(0), ..cold() };
        let stop = Settings { stop: vec!["END".into()], ..Settings::default() };
        let hard = || Settings { effort: Some(Effort::High), ..Settings::default() };
        let never = Settings { effort: Some(Effort::None), ..cold() };
        let extra = |field: &str| Settings {
            extra: [(field.to_owned(), json!([1]))].into_iter().collect(),
            ..hard()
        };
        let table = [
            ("anthropic", Settings::default(), Ok(json!({}))),
            ("openai", cold(), Ok(json!({"temperature": 0, "top_p": 0.90}))),
            (
                "vllm",
                all.clone(),
                Ok(json!({"temperature": 0, "top_p": 0.90, "stop": ["END"], "seed": 0})),
            ),
            (
                "mistral",
                Settings { seed: Some(7), ..Settings::default() },
                Ok(json!({"random_seed": 7})),
            ),
            ("anthropic", stop.clone(), Ok(json!({"stop_sequences": ["END"]}))),
            ("openai-responses", stop, Err("stop: responses has none; leave it out")),
            ("anthropic", all, Err("seed: anthropic has none; leave it out")),
            (
                "anthropic",
                hard(),
                Ok(json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}})),
            ),
            ("openai", hard(), Ok(json!({"reasoning_effort": "high"}))),
            (
                "openai-responses",
                extra("verbosity"),
                Ok(json!({"reasoning": {"effort": "high", "summary": "auto"}, "verbosity": [1]})),
            ),
            (
                "openai-responses",
                extra("input"),
                Err("extra: `input` can't be set there, because Inspan writes it"),
            ),
            (
                "openai",
                Settings { temperature: number("0"), ..hard() },
                Err("temperature: `openai` refuses it beside `effort`; keep one of them"),
            ),
            (
                "deepseek",
                Settings { temperature: number("0"), ..hard() },
                Ok(json!({"temperature": 0, "reasoning_effort": "high"})),
            ),
            (
                "anthropic",
                never,
                Ok(json!({"temperature": 0, "top_p": 0.90, "thinking": {"type": "disabled"}})),
            ),
            (
                "anthropic",
                Settings { effort: Some(Effort::Minimal), ..Settings::default() },
                Err("effort: anthropic knows no `minimal`; there are: none, low, medium, high, \
                     xhigh, max"),
            ),
        ];
        for (server, settings, expected) in table {
            let expected = expected.map_err(str::to_owned);
            assert_eq!(fields(server, &settings), expected, "{server} {settings:?}");
        }
    }
}
