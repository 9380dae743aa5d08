//! The servers that are known by name: where they are, which variables they have, and what they
//! are like. A server of the person's own is recognised by its host.
//!
//! What is said here comes from the vendors' documentation and from reports, read in November
//! 2026; `quirks` of `config.yaml` overrides each field. `docs/servers.md` shows it to people.

use inspan_core::pictures::PictureLimits;
use reqwest::Url;

use crate::{
    quirks::{AfterResults, CallIds, NO_PICTURES, NoContent, PICTURES, Quirks, ReasoningField},
    server::Wire,
};

/// A server that needs no configuration but its key.
pub(crate) struct Known {
    /// The scheme of its models' URLs. `NAME_BASE_URL`, in capitals, moves it elsewhere.
    pub(crate) name: &'static str,
    pub(crate) wire: Wire,
    /// Where it is without configuration.
    pub(crate) base_url: &'static str,
    /// The variable with its key; empty for a server that wants none.
    pub(crate) key: &'static str,
    /// The hosts at which it is recognised. One that begins with a dot is the end of a host, and
    /// one with a port is on this machine.
    pub(crate) hosts: &'static [&'static str],
    pub(crate) quirks: Quirks,
}

impl Known {
    /// Whether its name stands for every server of its wire, wherever it is.
    pub(crate) fn is_common(&self) -> bool {
        ["anthropic", "openai", "openai-responses"].contains(&self.name)
    }
}

/// The known server of this name.
pub(crate) fn named(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

/// The known server of this wire at this address.
pub(crate) fn at(wire: Wire, base_url: &str) -> Option<&'static Known> {
    let url = Url::parse(base_url.trim()).ok()?;
    let host = url.host_str()?;
    let is_local = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
    let is_at = |known: &&str| match known.strip_prefix(':') {
        Some(port) => is_local && url.port().is_some_and(|at| at.to_string() == port),
        None if known.starts_with('.') => host.ends_with(known),
        None => host == *known,
    };
    KNOWN.iter().find(|known| known.wire == wire && known.hosts.iter().any(is_at))
}

/// What servers have in common that run a model's own template over the messages.
const TEMPLATED: Quirks =
    Quirks { no_content: NoContent::Empty, alternate: true, ..Quirks::COMPATIBLE };

/// OpenAI's own rules: its newer models refuse `max_tokens`.
const OPENAI: Quirks = Quirks {
    output_limit_field: "max_completion_tokens",
    sampling_with_effort: false,
    pictures: PictureLimits { count_max: 500, bytes_max: 15 << 20, side_px_max: 4_096 },
    ..Quirks::COMPATIBLE
};

/// All of them, in the order in which they are listed.
pub(crate) const KNOWN: &[Known] = &[
    Known {
        name: "anthropic",
        wire: Wire::AnthropicMessages,
        base_url: "https://api.anthropic.com",
        key: "ANTHROPIC_API_KEY",
        hosts: &["api.anthropic.com"],
        quirks: Quirks {
            cache_marks: true,
            sampling_with_effort: false,
            // The schema of each of these is read by the model: the more, the worse. No limit is
            // told; this one is ours.
            tools_max: 512,
            // Above 20 pictures no side may be longer, so none is from the beginning.
            pictures: PictureLimits { count_max: 100, bytes_max: 3_932_160, side_px_max: 2_000 },
            ..Quirks::COMPATIBLE
        },
    },
    Known {
        name: "openai",
        wire: Wire::OpenAiChat,
        base_url: "https://api.openai.com/v1",
        key: "OPENAI_API_KEY",
        hosts: &["api.openai.com", ".api.openai.com", ".openai.azure.com"],
        quirks: OPENAI,
    },
    Known {
        name: "openai-responses",
        wire: Wire::OpenAiResponses,
        base_url: "https://api.openai.com/v1",
        key: "OPENAI_API_KEY",
        hosts: &["api.openai.com", ".api.openai.com", ".openai.azure.com"],
        quirks: Quirks { encrypted_reasoning: true, ..OPENAI },
    },
    Known {
        name: "ollama",
        wire: Wire::OpenAiChat,
        base_url: "http://localhost:11434/v1",
        key: "",
        hosts: &[":11434"],
        // Its window is set where it runs (OLLAMA_CONTEXT_LENGTH, or num_ctx in a Modelfile): this
        // wire has no field for it, and a longer prompt loses its beginning.
        quirks: Quirks {
            no_content: NoContent::Empty,
            plain_schemas: true,
            cuts_silently: true,
            ..Quirks::COMPATIBLE
        },
    },
    Known {
        name: "llamacpp",
        wire: Wire::OpenAiChat,
        base_url: "http://127.0.0.1:8080/v1",
        key: "LLAMA_API_KEY",
        hosts: &[],
        quirks: Quirks { plain_schemas: true, ..TEMPLATED },
    },
    Known {
        name: "vllm",
        wire: Wire::OpenAiChat,
        base_url: "http://127.0.0.1:8000/v1",
        key: "VLLM_API_KEY",
        hosts: &[],
        quirks: TEMPLATED,
    },
    Known {
        name: "lmstudio",
        wire: Wire::OpenAiChat,
        base_url: "http://127.0.0.1:1234/v1",
        key: "LMSTUDIO_API_KEY",
        hosts: &[],
        // It rolls the window or cuts the middle when told so in its own settings.
        quirks: Quirks { plain_schemas: true, cuts_silently: true, ..TEMPLATED },
    },
    Known {
        name: "openrouter",
        wire: Wire::OpenAiChat,
        base_url: "https://openrouter.ai/api/v1",
        key: "OPENROUTER_API_KEY",
        hosts: &["openrouter.ai"],
        // https://openrouter.ai/docs/use-cases/reasoning-tokens#preserving-reasoning-blocks: what its
        // models sign must come back as it was, in the blocks that it came in.
        quirks: Quirks {
            reasoning_echo: Some(ReasoningField::ReasoningDetails),
            ..Quirks::COMPATIBLE
        },
    },
    Known {
        name: "deepseek",
        wire: Wire::OpenAiChat,
        base_url: "https://api.deepseek.com/v1",
        key: "DEEPSEEK_API_KEY",
        hosts: &["api.deepseek.com"],
        // https://api-docs.deepseek.com/guides/thinking_mode: what was thought before a call must
        // come back with it, also in later turns; elsewhere it is ignored. Its models that refused
        // the field are gone.
        quirks: Quirks {
            reasoning_echo: Some(ReasoningField::ReasoningContent),
            reasoning_needed: true,
            no_content: NoContent::Empty,
            pictures: NO_PICTURES,
            ..Quirks::COMPATIBLE
        },
    },
    Known {
        name: "dashscope",
        wire: Wire::OpenAiChat,
        base_url: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        key: "DASHSCOPE_API_KEY",
        hosts: &[
            "dashscope.aliyuncs.com",
            "dashscope-intl.aliyuncs.com",
            "dashscope-us.aliyuncs.com",
            ".dashscope.aliyuncs.com",
        ],
        // Qwen's reasoning is ignored in what is sent unless `preserve_thinking` is set. A picture
        // may have 10 MiB in base64.
        quirks: Quirks {
            no_content: NoContent::Empty,
            pictures: PictureLimits { bytes_max: 7_864_320, ..PICTURES },
            ..Quirks::COMPATIBLE
        },
    },
    Known {
        name: "moonshot",
        wire: Wire::OpenAiChat,
        base_url: "https://api.moonshot.ai/v1",
        key: "MOONSHOT_API_KEY",
        hosts: &["api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"],
        // https://github.com/continuedev/continue/issues/11711: a call without its reasoning is
        // refused; an empty one is taken. Schemas are of a flavour of its own.
        quirks: Quirks {
            reasoning_echo: Some(ReasoningField::ReasoningContent),
            reasoning_needed: true,
            no_content: NoContent::Empty,
            plain_schemas: true,
            ..Quirks::COMPATIBLE
        },
    },
    Known {
        name: "mistral",
        wire: Wire::OpenAiChat,
        base_url: "https://api.mistral.ai/v1",
        key: "MISTRAL_API_KEY",
        hosts: &["api.mistral.ai", "codestral.mistral.ai"],
        // https://github.com/karthink/gptel/issues/1203 for the identifiers, and
        // https://github.com/mistralai/mistral-common/issues/169 for the user after a result. It
        // counts without being asked, and refuses fields that it does not know.
        quirks: Quirks {
            stream_options: false,
            no_content: NoContent::Empty,
            call_ids: CallIds::Nine,
            after_results: AfterResults::Joined,
            alternate: true,
            seed_field: "random_seed",
            pictures: PictureLimits { count_max: 8, bytes_max: 7_500_000, side_px_max: 2_000 },
            ..Quirks::COMPATIBLE
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_recognised_by_their_host() {
        let table = [
            ("https://api.deepseek.com/v1", Some("deepseek")),
            ("https://api.deepseek.com.here/v1", None),
            ("https://dashscope.aliyuncs.com/compatible-mode/v1", Some("dashscope")),
            ("https://coding.dashscope.aliyuncs.com/v1", Some("dashscope")),
            ("https://API.moonshot.cn/v1", Some("moonshot")),
            ("https://openrouter.ai/api/v1", Some("openrouter")),
            ("http://localhost:11434/v1", Some("ollama")),
            ("http://127.0.0.1:11434/v1", Some("ollama")),
            ("http://far:11434/v1", None),
            ("http://localhost:8080/v1", None),
            ("https://api.openai.com/v1/", Some("openai")),
            ("https://EU.api.openai.com/v1", Some("openai")),
            ("https://here.openai.azure.com/openai/v1", Some("openai")),
            ("https://proxy.here/api.openai.com/v1", None),
            ("https://notapi.openai.com.here/v1", None),
            // The same host over another wire.
            ("https://api.anthropic.com", None),
            ("here", None),
        ];
        for (url, name) in table {
            assert_eq!(at(Wire::OpenAiChat, url).map(|known| known.name), name, "{url}");
        }
        // Marks for the cache go to Anthropic itself only.
        let marks = |url| Quirks::at(Wire::AnthropicMessages, url).cache_marks;
        assert_eq!(
            ["https://api.anthropic.com/v1", "https://api.kimi.com", "http://127.0.0.1:1"]
                .map(marks),
            [true, false, false]
        );
    }

    #[test]
    fn every_known_server_is_found_where_it_is() {
        for known in KNOWN {
            let found = at(known.wire, known.base_url).map(|found| found.name);
            let expected = (!known.hosts.is_empty()).then_some(known.name);
            assert_eq!(found, expected);
            assert_eq!(named(known.name).map(|known| known.base_url), Some(known.base_url));
        }
    }

    /// `docs/servers.md` says what is so.
    #[test]
    fn the_page_tells_of_every_server() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/servers.md");
        let page = std::fs::read_to_string(page).expect("the page");
        let mut rows = vec![];
        for known in KNOWN {
            let wire = known.wire.name();
            let key = if known.key.is_empty() { "none".into() } else { format!("`{}`", known.key) };
            let Known { name, base_url, .. } = known;
            rows.push(format!("| `{name}` | {wire} | `{base_url}` | {key} |"));
        }
        let all = format!("{:#?}", Quirks::COMPATIBLE);
        rows.push(format!("| others | {} |", quirks_told(&all, "")));
        for known in KNOWN {
            let quirks = quirks_told(&format!("{:#?}", known.quirks), &all);
            rows.push(format!("| `{}` | {quirks} |", known.name));
        }
        let missing: Vec<String> = rows.into_iter().filter(|row| !page.contains(row)).collect();
        assert!(missing.is_empty(), "missing in docs/servers.md:\n{}", missing.join("\n"));
    }

    /// The fields that are not as in `others`, in the words of `config.yaml`.
    fn quirks_told(quirks: &str, others: &str) -> String {
        let fields = |text: &str| -> Vec<String> {
            let flat = text.replace("Some(\n        ", "").replace(",\n    ),", ",");
            let flat = flat.replace("PictureLimits {\n", "{\n").replace(",\n    },", " },");
            let lines = flat.lines().filter(|line| line.starts_with("    "));
            let mut fields: Vec<String> = vec![];
            for line in lines {
                match line.strip_prefix("        ") {
                    Some(more) => {
                        if let Some(last) = fields.last_mut() {
                            *last = format!("{last} {more}");
                        }
                    }
                    None => fields.push(line.trim().trim_end_matches(',').to_lowercase()),
                }
            }
            fields
        };
        let of_others = fields(others);
        let told = fields(quirks).into_iter().filter(|field| !of_others.contains(field));
        let told: Vec<String> = told
            .map(|field| {
                let field = field.replace("reasoningcontent", "reasoning_content");
                let field = field.replace("reasoningdetails", "reasoning_details");
                format!("`{}`", field.trim_end_matches(',').replace('"', ""))
            })
            .collect();
        if told.is_empty() { "—".to_owned() } else { told.join(", ") }
    }
}
