use std::{fs, os::unix::fs::PermissionsExt};

use inspan_core::{
    budget::{Limits, Price},
    pictures::PictureLimits,
};
use inspan_providers::{
    AfterResults, CallIds, Effort, KeySource, NoContent, Quirks, ReasoningField, Settings,
    Timeouts, Wire,
};
use secrecy::ExposeSecret;

use super::*;

/// A home folder with these files; `.env` is open to its owner only.
struct Home(tempfile::TempDir);

impl Home {
    fn new(config: &str, env_file: &str) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        fs::write(home.path().join("config.yaml"), config).unwrap();
        fs::write(home.path().join(".env"), env_file).unwrap();
        home.set_mode(0o600);
        home
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn set_mode(&self, mode: u32) {
        fs::set_permissions(self.path().join(".env"), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn load(&self, environment: &[(&str, &str)]) -> Result<Config, ConfigError> {
        Config::load(self.path(), environment.iter().map(|(n, v)| (n.into(), v.into())).collect())
    }

    /// What the error says, with the home folder as `~`.
    fn error(&self) -> String {
        let error = self.load(&[("HOST", "box")]).unwrap_err();
        error.to_string().replace(&self.path().display().to_string(), "~")
    }
}

fn load(config: &str) -> Config {
    Home::new(config, "").load(&[]).unwrap()
}

fn server<'a>(config: &'a Config, name: &str) -> &'a Server {
    config.servers.iter().find(|server| server.name == name).unwrap()
}

#[test]
fn nothing_need_be_there() {
    let home = tempfile::tempdir().unwrap();
    let config = Config::load(&home.path().join("missing"), vec![]).unwrap();
    let names: Vec<&str> = config.servers.iter().map(|server| server.name.as_str()).collect();
    let known = [
        "anthropic",
        "openai",
        "openai-responses",
        "ollama",
        "llamacpp",
        "vllm",
        "lmstudio",
        "openrouter",
        "deepseek",
        "dashscope",
        "moonshot",
        "mistral",
    ];
    assert_eq!(names, known);
    assert_eq!((config.model, config.limits), (None, LimitsPatch::default()));
    assert_eq!(config.models, BTreeMap::new());
    // Sections of which all lines are comments.
    assert_eq!(load("model:\nproviders:\nmodels:\nlimits:\n").limits, LimitsPatch::default());
}

#[test]
fn mistakes_are_told_with_place_and_remedy() {
    let table = [
        (
            "model: a\nproviders:\n  x:\n    wire: openai\nlimits:\n  calls_max: 3\n  rounds_mx: 8\n",
            "~/config.yaml:7:3: unknown key `rounds_mx`; did you mean `rounds_max`?",
        ),
        (
            "colour: red\n",
            "~/config.yaml:1:1: unknown key `colour`; there are: model, database, \
             providers, models, limits, tools_tokens_max, blobs, mcpServers",
        ),
        (
            "limits:\n  rounds_max: many\n",
            "~/config.yaml:2:15: rounds_max: `many` is not a whole number",
        ),
        (
            "limits: { rounds_max: -1 }\n",
            "~/config.yaml:1:23: rounds_max: `-1` is not a whole number",
        ),
        (
            "limits: { rounds_max: none }",
            "~/config.yaml:1:23: rounds_max: `none` is not a whole number",
        ),
        (
            "database: mysql://u:secret@x/y",
            "~/config.yaml:1:11: database: `mysql://` is no database of Inspan: write \
             postgres://USER:PASSWORD@HOST/DATABASE, or the path of a file for SQLite",
        ),
        (
            "database: ~/my.db",
            "~/config.yaml:1:11: database: `~` is the home folder, and HOME is not set",
        ),
        (
            "database: ~ann/my.db",
            "~/config.yaml:1:11: database: `~` stands only before a `/`: write the whole path",
        ),
        ("limits: { rounds_max: [8] }", "~/config.yaml:1:23: one value is expected here"),
        (
            "limits: { rounds_max: 4294967296 }",
            "~/config.yaml:1:23: rounds_max: `4294967296` is too large; the most is 4294967295",
        ),
        (
            "limits: { tokens_max: 1.5 }",
            "~/config.yaml:1:23: tokens_max: `1.5` is not a whole number, nor `none`",
        ),
        (
            "limits: { time_max: 10 }",
            "~/config.yaml:1:21: time_max: `10` is not a duration like 90s, 10m or 1h30m, nor \
             `none`",
        ),
        (
            "limits: { cost_max_usd: $2 }",
            "~/config.yaml:1:25: cost_max_usd: `$2` is not an amount in US dollars like 2.50, nor \
             `none`",
        ),
        ("limits: 8", "~/config.yaml:1:9: keys with values are expected here: { key: value }"),
        ("model: a\nmodel: b\n", "~/config.yaml:2:1: `model` stands here twice"),
        ("model: 'a\n", "~/config.yaml:1:8: unclosed quote"),
        ("model: a\n---\nmodel: b\n", "~/config.yaml:3:1: there must be one document only"),
        (
            "providers:\n  box:\n    base_url: http://box/v1\n",
            "~/config.yaml:3:5: the provider `box` needs `wire`",
        ),
        ("providers: { box: {} }", "~/config.yaml:1:19: the provider `box` needs `base_url`"),
        (
            "providers: { 'a b': { wire: openai, base_url: x } }",
            "~/config.yaml:1:21: `a b` can't name a provider: it is written in NAME://MODEL",
        ),
        (
            "providers:\n  openai:\n    wire: opnai\n",
            "~/config.yaml:3:11: wire: `opnai` is not known; did you mean `openai`?",
        ),
        (
            "providers: { openai: { quirks: { output_limit_field: tokens } } }",
            "~/config.yaml:1:54: output_limit_field: `tokens` is not known; there are: max_tokens, \
             max_completion_tokens",
        ),
        (
            "providers: { openai: { quirks: { reasoning_echo: content } } }",
            "~/config.yaml:1:50: reasoning_echo: `content` is not known; there are: \
             reasoning_content, reasoning, reasoning_details, none",
        ),
        (
            "providers:\n  openai:\n    key_env: A\n    key: b\n",
            "~/config.yaml:4:10: there are both `key` and `key_env`: keep one of them",
        ),
        (
            "providers:\n  openai:\n    key: ${MY_KEY}\n",
            "~/config.yaml:3:10: the variable MY_KEY is not set; set it in the environment or in \
             ~/.env, or write ${MY_KEY:-DEFAULT}",
        ),
        (
            "providers:\n  openai:\n    extra: { user: ['${WHO}'] }\n",
            "~/config.yaml:3:12: the variable WHO is not set; set it in the environment or in \
             ~/.env, or write ${WHO:-DEFAULT}",
        ),
        (
            "model: ollama://${HOST?x}",
            "~/config.yaml:1:8: `${HOST?x}` is neither ${NAME} nor ${NAME:-DEFAULT}; write $$ for \
             a plain $",
        ),
        ("model: ${HOST", "~/config.yaml:1:8: a `${` is not closed; write $$ for a plain $"),
        ("models: { qwen: {} }", "~/config.yaml:1:17: `qwen` is no model: write SERVER://MODEL"),
        (
            "models:\n  ollama://a: {}\n  olama://b: {}\n",
            "~/config.yaml:3:14: `olama://b` is a model of no known server; did you mean `ollama`?",
        ),
        (
            "models: { 'a://b': { price: { input: 1 } } }\nproviders:\n  a: { wire: openai, \
             base_url: 'http://a' }",
            "~/config.yaml:1:29: a price needs `output`",
        ),
        ("model: claude", "~/config.yaml:1:8: model: `claude` is no model: write SERVER://MODEL"),
        (
            "model: groq://qwen",
            "~/config.yaml:1:8: model: `groq://qwen` is a model of no known server; there are: \
             anthropic, openai, openai-responses, ollama, llamacpp, vllm, lmstudio, \
             openrouter, deepseek, dashscope, moonshot, mistral",
        ),
        (
            "limits: { output_tokens_max: 0 }",
            "~/config.yaml:1:30: output_tokens_max: `0` must be more than zero",
        ),
        (
            "models: { 'ollama://a': { window_tokens_max: 0 } }",
            "~/config.yaml:1:46: window_tokens_max: `0` must be more than zero",
        ),
        (
            "models: { 'ollama://a': { output_tokens_max: 0 } }",
            "~/config.yaml:1:46: output_tokens_max: `0` must be more than zero",
        ),
        (
            "providers: { ollama: { timeouts: { connect_max: 0s } } }",
            "~/config.yaml:1:49: connect_max: `0s` must be more than zero",
        ),
        (
            "providers: { ollama: { timeouts: { first_max: 0m } } }",
            "~/config.yaml:1:47: first_max: `0m` must be more than zero",
        ),
        (
            "providers: { ollama: { timeouts: { silence_max: 0ms } } }",
            "~/config.yaml:1:49: silence_max: `0ms` must be more than zero",
        ),
        (
            "providers: { ollama: { timeouts: { whole_max: 0h } } }",
            "~/config.yaml:1:47: whole_max: `0h` must be more than zero",
        ),
    ];
    for (config, message) in table {
        assert_eq!(Home::new(config, "").error(), message, "{config}");
    }
}

#[test]
fn a_secret_in_the_wrong_place_is_quoted_as_it_is_written() {
    let table = [
        (
            "model: ${A_KEY}",
            "~/config.yaml:1:8: model: `${A_KEY}` is no model: write SERVER://MODEL",
        ),
        (
            "model: ${A_KEY}://${HOST}",
            "~/config.yaml:1:8: model: `${A_KEY}://${HOST}` is a model of no known server; there \
             are: anthropic, openai, openai-responses, ollama, llamacpp, vllm, lmstudio, \
             openrouter, deepseek, dashscope, moonshot, mistral",
        ),
        (
            "limits: { rounds_max: '${A_KEY}' }",
            "~/config.yaml:1:23: rounds_max: `${A_KEY}` is not a whole number",
        ),
        (
            "limits: { time_max: '${A_KEY}' }",
            "~/config.yaml:1:21: time_max: `${A_KEY}` is not a duration like 90s, 10m or 1h30m, \
             nor `none`",
        ),
        (
            "providers: { openai: { wire: '${A_KEY}' } }",
            "~/config.yaml:1:30: wire: `${A_KEY}` is not known; there are: anthropic, openai, \
             responses",
        ),
        (
            "providers: { openai: { quirks: { output_limit_field: '${A_KEY}' } } }",
            "~/config.yaml:1:54: output_limit_field: `${A_KEY}` is not known; there are: \
             max_tokens, max_completion_tokens",
        ),
        (
            "providers: { openai: { quirks: { reasoning_echo: '${A_KEY}' } } }",
            "~/config.yaml:1:50: reasoning_echo: `${A_KEY}` is not known; there are: \
             reasoning_content, reasoning, reasoning_details, none",
        ),
    ];
    for (config, message) in table {
        assert_eq!(Home::new(config, "A_KEY=abcdef0123\n").error(), message, "{config}");
    }
}

#[test]
fn an_env_file_open_to_others_is_refused() {
    let home = Home::new("", "KEY=s3cret-value\n");
    for mode in [0o640, 0o604, 0o644, 0o660, 0o620] {
        home.set_mode(mode);
        assert_eq!(
            home.error(),
            "~/.env holds keys and other users can get at it; run: chmod 600 ~/.env"
        );
    }
    for mode in [0o600, 0o400] {
        home.set_mode(mode);
        assert_eq!(home.load(&[]).unwrap().variables.get("KEY").unwrap(), "s3cret-value");
    }
    let spaced = ConfigError::OpenToOthers { path: "/home/my home/.env".into() };
    assert_eq!(
        spaced.to_string(),
        "/home/my home/.env holds keys and other users can get at it; run: chmod 600 '/home/my \
         home/.env'"
    );
}

#[test]
fn a_bad_line_of_the_env_file_is_named_and_not_shown() {
    let why = "this is no variable: write NAME=VALUE, a value with spaces or $ in single quotes";
    for (text, line) in [("A=b\n\nsk-secret\n", 3), ("A=b\n  B 'sk-secret\n", 2), ("=x", 1)] {
        assert_eq!(Home::new("", text).error(), format!("~/.env:{line}: {why}"));
    }
}

#[test]
fn the_environment_counts_before_the_env_file() {
    let env_file = "A=file\nB='from $ file'\nexport C=\"x y\" # note\n";
    let config = Home::new("", env_file).load(&[("A", "outside"), ("D", "")]).unwrap();
    let get = |name: &str| config.variables.get(name);
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(["A", "B", "C"].map(get), [text("outside"), text("from $ file"), text("x y")]);
    assert_eq!(["D", "E"].map(get), [text(""), None]);
}

#[test]
fn providers_become_servers() {
    let yaml = "\
model: box://${MODEL:-qwen}
providers:
  box:
    wire: openai
    base_url: http://${HOST}:8080/v1
    key: ${BOX_KEY}
    timeouts: { first_max: 90s, whole_max: 1h }
    quirks: { output_limit_field: max_completion_tokens, reasoning_echo: reasoning_content }
    extra: { temperature: 0.2, stop: ['${HOST}', $$] }
  far: { wire: anthropic, base_url: https://far.example, key_env: FAR_KEY }
  openai: { base_url: http://localhost:1234/v1 }
";
    let home = Home::new(yaml, "BOX_KEY=sk-box-key-123\nOPENAI_BASE_URL=http://elsewhere\n");
    let config = home.load(&[("HOST", "box.local"), ("FAR_KEY", "far-key-456")]).unwrap();
    assert_eq!(config.model.as_deref(), Some("box://qwen"));

    let r#box = server(&config, "box");
    assert_eq!(
        (r#box.wire, r#box.base_url.as_str()),
        (Wire::OpenAiChat, "http://box.local:8080/v1")
    );
    let KeySource::Fixed(key) = &r#box.key else { panic!("{:?}", r#box.key) };
    assert_eq!(key.expose_secret(), "sk-box-key-123");
    let timeouts = Timeouts { first_ms_max: 90_000, whole_ms_max: 3_600_000, ..Timeouts::LOCAL };
    assert_eq!(r#box.timeouts, timeouts);
    let quirks = Quirks {
        output_limit_field: "max_completion_tokens",
        reasoning_echo: Some(ReasoningField::ReasoningContent),
        ..Quirks::COMPATIBLE
    };
    assert_eq!(r#box.quirks, quirks);
    let extra = serde_json::json!({ "temperature": 0.2, "stop": ["box.local", "$"] });
    assert_eq!(serde_json::Value::from(r#box.extra.clone()), extra);

    let far = server(&config, "far");
    assert_eq!((far.wire, far.timeouts), (Wire::AnthropicMessages, Timeouts::REMOTE));
    assert_eq!(far.check_key(), Ok(()));

    let openai = server(&config, "openai");
    assert_eq!(
        (openai.wire, openai.base_url.as_str()),
        (Wire::OpenAiChat, "http://localhost:1234/v1")
    );
    assert_eq!((openai.timeouts, &openai.quirks), (Timeouts::LOCAL, &Quirks::COMPATIBLE));
    // A server on this machine need not have a key.
    assert_eq!(openai.check_key(), Ok(()));
}

#[test]
fn a_server_can_be_like_a_known_one() {
    let yaml = "\
providers:
  box: { like: llamacpp, base_url: http://box:9000/v1 }
  mine: { like: deepseek, base_url: https://mine.example/v1, quirks: { reasoning_echo: none } }
  proxy: { wire: openai, base_url: https://api.mistral.ai/v1, key: abcdefgh }
  strict:
    wire: openai
    base_url: http://strict/v1
    quirks:
      no_content: missing
      call_ids: nine
      after_results: joined
      alternate: true
      plain_schemas: true
      deferred_tools: true
      tools_max: 16
      pictures: { count_max: 0 }
      cuts_silently: true
";
    let config = load(yaml);
    let like = |name: &str| {
        Server::like(name, None, &config.variables.lookup()).expect("a known server").quirks
    };
    let r#box = server(&config, "box");
    assert_eq!((&*r#box.base_url, &r#box.quirks), ("http://box:9000/v1", &like("llamacpp")));
    let mine = server(&config, "mine");
    assert_eq!(mine.quirks, Quirks { reasoning_echo: None, ..like("deepseek") });
    let KeySource::Variable { name, .. } = &mine.key else { panic!("{:?}", mine.key) };
    assert_eq!(name, "DEEPSEEK_API_KEY");
    assert_eq!(server(&config, "proxy").quirks, like("mistral"));
    let quirks = Quirks {
        no_content: NoContent::Missing,
        call_ids: CallIds::Nine,
        after_results: AfterResults::Joined,
        alternate: true,
        plain_schemas: true,
        deferred_tools: true,
        tools_max: 16,
        pictures: PictureLimits { count_max: 0, ..PictureLimits::default() },
        cuts_silently: true,
        ..Quirks::COMPATIBLE
    };
    assert_eq!(server(&config, "strict").quirks, quirks);
    assert_eq!(
        Home::new("providers: { a: { like: olama } }", "").error(),
        "~/config.yaml:1:25: like: `olama` is not known; did you mean `ollama`?"
    );
}

#[test]
fn every_known_secret_is_masked_and_printed_by_nothing() {
    let yaml = "\
providers:
  box: { wire: openai, base_url: http://box/v1, key: literal-key-1 }
  far:
    wire: openai
    base_url: http://${FAR_HOST}/${FAR_PATH}/v1
    key_env: FAR_KEY
    quirks: { output_limit_field: '${FIELD}' }
    extra: { user: ['${USER_TOKEN}', '${SHORT}', '${UNSET:-a default}'] }
model: far://${MODEL}
";
    let env_file = "A=file-value-1\nOPENAI_BASE_URL=http://elsewhere\nOLLAMA_HOST=ollama.example\n";
    let home = Home::new(yaml, env_file);
    let environment = [
        ("FAR_KEY", "far-key-456"),
        ("FAR_HOST", "far.example"),
        ("FAR_PATH", "path-token"),
        ("FIELD", "max_tokens"),
        ("USER_TOKEN", "user-token"),
        ("SHORT", "short"),
        ("MODEL", "model-name"),
        ("ANTHROPIC_API_KEY", "anthropic-key-7"),
        ("PLAIN", "plain-value"),
        ("UNUSED_API_KEY", "unused-key-1"),
        ("db_password", "db-password-1"),
        ("GH_TOKEN", "gh-token-1"),
        ("CI_CREDENTIALS", "ci-credentials"),
        ("SSH_AUTH_SOCK", "plain-socket"),
    ];
    let config = home.load(&environment).unwrap();
    let secrets = [
        "literal-key-1",
        "far-key-456",
        "anthropic-key-7",
        "file-value-1",
        "path-token",
        "user-token",
        "unused-key-1",
        "db-password-1",
        "gh-token-1",
        "ci-credentials",
    ];
    for secret in secrets {
        assert_eq!(config.mask.text(secret), "[masked]", "{secret}");
    }
    let plain = "plain-value plain-socket http://elsewhere ollama.example far.example max_tokens short \
                 a default far://model-name";
    assert_eq!(config.mask.text(plain), plain);
    let printed = format!("{config:?}");
    let unmasked = ["literal-key-1", "far-key-456", "anthropic-key-7", "file-value-1"];
    assert!(unmasked.iter().all(|secret| !printed.contains(secret)), "{printed}");
}

#[test]
fn a_broken_configuration_leaves_a_mask() {
    let home = Home::new("modle: x", "A=file-value-1\nOLLAMA_HOST=ollama.example\n");
    let environment = || vec![("OPENAI_API_KEY".into(), "outside-key".into())];
    let mask = env_file_mask(home.path(), environment());
    assert_eq!(
        mask.text("file-value-1 outside-key ollama.example sk-0123456789abcdef"),
        "[masked] [masked] ollama.example [masked]"
    );
    home.set_mode(0o644);
    let mask = env_file_mask(home.path(), environment());
    assert_eq!(mask.text("file-value-1 sk-0123456789abcdef"), "file-value-1 [masked]");
}

#[test]
fn limits_are_changed_lifted_and_left() {
    let yaml = "\
limits:
  rounds_max: 8
  tokens_max: none
  cost_max_usd: 2.00
  time_max: 10m
  calls_at_once_max: 1
  output_tokens_max: 16_000
";
    let mut limits = Limits::session();
    load(yaml).limits.apply(&mut limits);
    let expected = Limits {
        rounds_max: 8,
        tokens_max: None,
        cost_max_nano_usd: Some(2_000_000_000),
        time_ms_max: Some(600_000),
        calls_at_once_max: 1,
        output_tokens_max: 16_000,
        ..Limits::session()
    };
    assert_eq!(limits, expected);

    load("limits: { tokens_max: 0, cost_max_usd: null, time_max: ~ }").limits.apply(&mut limits);
    let expected =
        Limits { tokens_max: Some(0), cost_max_nano_usd: None, time_ms_max: None, ..expected };
    assert_eq!(limits, expected);
}

#[test]
fn models_have_windows_and_prices() {
    let yaml = "\
models:
  anthropic://claude-x:
    window_tokens_max: 200_000
    output_tokens_max: 64000
    price: { input: 3, output: 15.00, cache_read: 0.30, cache_write: 3.75 }
  openai://small: { price: { input: 0.0375, output: 0.15 } }
  ollama://qwen: { window_tokens_max: 8192 }
";
    let expected = [
        (
            "anthropic://claude-x",
            ModelFacts {
                window_tokens_max: Some(200_000),
                output_tokens_max: Some(64_000),
                price: Some(Price {
                    input: 3_000,
                    output: 15_000,
                    cache_read: 300,
                    cache_write: 3_750,
                }),
                ..ModelFacts::default()
            },
        ),
        ("ollama://qwen", ModelFacts { window_tokens_max: Some(8_192), ..ModelFacts::default() }),
        (
            "openai://small",
            ModelFacts {
                price: Some(Price { input: 38, output: 150, cache_read: 38, cache_write: 38 }),
                ..ModelFacts::default()
            },
        ),
    ];
    assert_eq!(load(yaml).models, expected.map(|(url, facts)| (url.to_owned(), facts)).into());
}

#[test]
fn a_bucket_for_blobs() {
    let keys = [("AWS_ACCESS_KEY_ID", "an-id"), ("AWS_SECRET_ACCESS_KEY", "env-secret-1")];
    let shown = |config: Config| {
        let place = config.blobs.unwrap();
        let token = place.session_token.map(|token| token.expose_secret().to_owned());
        format!(
            "{} {} {:?} {} {} {} {token:?}",
            place.bucket,
            place.prefix,
            place.endpoint,
            place.region,
            place.access_key,
            place.secret_key.expose_secret()
        )
    };
    let whole = "blobs:\n  url: s3://bucket/a/b\n  endpoint: http://${HOST}:9000\n  region: here\n  \
                 access_key: me\n  secret_key: ${S3_KEY}\n  session_token: lent-token-1\n  sweep: true\n";
    let table = [
        ("blobs: s3://bucket", &[] as &[_], "bucket  None us-east-1 an-id env-secret-1 None"),
        (
            "blobs: s3://bucket/a/",
            &[
                ("AWS_REGION", "there"),
                ("AWS_SESSION_TOKEN", "lent"),
                ("AWS_ENDPOINT_URL", "http://box"),
            ],
            "bucket a Some(\"http://box\") there an-id env-secret-1 Some(\"lent\")",
        ),
        (
            whole,
            &[("HOST", "box"), ("S3_KEY", "file-secret-1"), ("AWS_SESSION_TOKEN", "of others")],
            "bucket a/b Some(\"http://box:9000\") here me file-secret-1 Some(\"lent-token-1\")",
        ),
    ];
    for (yaml, more, expected) in table {
        let config = Home::new(yaml, "").load(&[&keys, more].concat()).unwrap();
        assert!(!format!("{config:?}").contains("secret-1"));
        // Another database may name what is there, unless somebody says that none does.
        assert_eq!(config.sweeps_bucket, yaml == whole);
        for secret in ["env-secret-1", "file-secret-1", "lent-token-1"] {
            // One of the environment is masked by its name, whether or not it is used.
            let is_used = expected.contains(secret) || secret == "env-secret-1";
            assert_eq!(config.mask.text(secret) == "[masked]", is_used, "{yaml}");
        }
        assert_eq!(shown(config), expected, "{yaml}");
    }
}

#[test]
fn a_bucket_that_makes_no_sense() {
    let table = [
        (
            "blobs: gs://x",
            "~/config.yaml:1:8: blobs: `gs://x` is no bucket: write s3://BUCKET/PREFIX",
        ),
        ("blobs: { region: x }", "~/config.yaml:1:8: `blobs` needs `url`"),
        (
            "blobs: { url: s3://bucket, acces_key: x }",
            "~/config.yaml:1:28: unknown key `acces_key`; did you mean `access_key`?",
        ),
        (
            "blobs: s3://bucket",
            "~/config.yaml:1:8: a bucket needs `access_key`, or the variable AWS_ACCESS_KEY_ID",
        ),
        (
            "blobs: { url: s3://bucket, access_key: a }",
            "~/config.yaml:1:8: a bucket needs `secret_key`, or the variable AWS_SECRET_ACCESS_KEY",
        ),
        (
            "blobs: { url: s3://bucket, access_key: a, secret_key: b, endpoint: box }",
            "~/config.yaml:1:8: endpoint: write http://HOST or https://HOST",
        ),
    ];
    for (config, message) in table {
        assert_eq!(Home::new(config, "").error(), message, "{config}");
    }
}

#[test]
fn models_have_settings_and_fallbacks() {
    let yaml = "\
models:
  ollama://qwen:
    temperature: 0
    top_p: 0.90
    stop: [END, '${WORD}']
    seed: 0
    extra: { keep_alive: 10m }
    fallback: [openai://small, anthropic://claude-x]
  openai://small: { effort: low }
";
    let config = Home::new(yaml, "").load(&[("WORD", "halt")]).unwrap();
    let settings = Settings {
        temperature: Some(0.into()),
        top_p: serde_json::from_str("0.90").ok(),
        stop: vec!["END".into(), "halt".into()],
        seed: Some(0),
        extra: [("keep_alive".to_owned(), "10m".into())].into_iter().collect(),
        ..Settings::default()
    };
    let qwen = ModelFacts {
        settings,
        fallback: vec!["openai://small".into(), "anthropic://claude-x".into()],
        ..ModelFacts::default()
    };
    let settings = Settings { effort: Some(Effort::Low), ..Settings::default() };
    let small = ModelFacts { settings, ..ModelFacts::default() };
    let expected = [("ollama://qwen", qwen), ("openai://small", small)];
    assert_eq!(config.models, expected.map(|(url, facts)| (url.to_owned(), facts)).into());
}

#[test]
fn settings_that_make_no_sense_are_told() {
    let table = [
        (
            "models:\n  ollama://a:\n    temprature: 0\n",
            "~/config.yaml:3:5: unknown key `temprature`; did you mean `temperature`?",
        ),
        (
            "models: { 'ollama://a': { temperature: 3 } }",
            "~/config.yaml:1:40: temperature: `3` is not a number from 0 to 2",
        ),
        (
            "models: { 'ollama://a': { effort: hihg } }",
            "~/config.yaml:1:35: effort: `hihg` is not known; did you mean `high`?",
        ),
        (
            "models: { 'openai://a': { effort: high, temperature: 0 } }",
            "~/config.yaml:1:54: temperature: `openai` refuses it beside `effort`; keep one of them",
        ),
        (
            "models: { 'anthropic://a': { seed: 1 } }",
            "~/config.yaml:1:36: seed: anthropic has none; leave it out",
        ),
        (
            "models: { 'openai://a': { extra: { messages: [] } } }",
            "~/config.yaml:1:34: extra: `messages` can't be set there, because Inspan writes it",
        ),
        (
            "models: { 'openai://a': { fallback: [opnai://b] } }",
            "~/config.yaml:1:38: fallback: `opnai://b` is a model of no known server; did you mean \
             `openai`?",
        ),
        (
            "models: { 'openai://a': { fallback: [openai://b, openai://b] } }",
            "~/config.yaml:1:50: fallback: `openai://b` stands there already",
        ),
        (
            "models: { 'openai://a': { fallback: [openai://a] } }",
            "~/config.yaml:1:38: fallback: `openai://a` stands there already",
        ),
    ];
    for (config, message) in table {
        assert_eq!(Home::new(config, "").error(), message, "{config}");
    }
}
