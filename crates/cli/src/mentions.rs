//! What servers of tools have to read, named in a prompt: `@SERVER:ADDRESS` brings a resource along,
//! and a prompt that is `/SERVER:NAME KEY=VALUE…` is replaced by one of the server's.

use inspan_core::{
    effects::Effects,
    gate::Asking,
    message::{Content, Labels},
};
use inspan_engine::Setup;
use inspan_mcp::{Inquiries, Pictures, PromptListed, ServerConfig, Wanted};
use inspan_pictures::media_type;
use serde_json::{Map, Value};

use crate::{config::near, exit::Failure, home::Home, out::Out, person::Person};

/// A part of a prompt that names something of a server.
#[derive(Debug, PartialEq, Eq)]
struct Mention<'a> {
    server: &'a str,
    /// An address, or a name with arguments.
    what: &'a str,
}

/// What a prompt says with everything that it names, and where that comes from. A prompt that names
/// nothing is itself.
///
/// # Errors
/// A server or a name that there is not, arguments that make no sense, something that can't be read.
pub(crate) async fn expand(
    home: &Home,
    (servers, setup): (&[ServerConfig], &Setup),
    prompt: String,
    person: &mut Person,
    out: &Out,
) -> Result<(Vec<Content>, Labels), Failure> {
    let plain = |prompt| (vec![Content::text(prompt)], Labels::default());
    // Without servers, these are words like any others.
    if servers.is_empty() {
        return Ok(plain(prompt));
    }
    let mut wanted = Vec::new();
    let as_prompt = as_prompt(&prompt);
    match &as_prompt {
        Some(mention) => wanted.push(prompt_of(home, mention, servers).await?),
        None => {
            for mention in mentions(&prompt) {
                // Other programs have words like this, too: only a slip of the pen is told.
                if !may_be_meant(mention.server, servers) {
                    continue;
                }
                let server = server_of(&mention, servers, '@')?;
                let found = (server, Wanted::Resource(mention.what.to_owned()));
                if !wanted.contains(&found) {
                    wanted.push(found);
                }
            }
        }
    }
    if wanted.is_empty() {
        return Ok(plain(prompt));
    }
    let mut content = Vec::new();
    if as_prompt.is_none() {
        content.push(Content::text(prompt.clone()));
    }
    let pictures = setup
        .blobs
        .clone()
        .map(|blobs| Pictures { blobs, media_type: |bytes| media_type(bytes).ok() });
    for (at, wanted) in wanted {
        let asks = setup.shared.get::<Inquiries>().filter(|_| setup.asking == Asking::Now);
        let read = home.mcp.read(&servers[at], &wanted, pictures.as_ref(), asks.cloned());
        let read = tokio::select! {
            read = read => read?,
            // Nobody types any more.
            _ = person.next(out) => return Err(Failure::Usage("cancelled before the prompt was sent".to_owned())),
        };
        content.extend(read.into_iter().map(|piece| match piece {
            Content::Text { text } => Content::text(setup.mask.text(&text)),
            picture @ Content::Image(_) => picture,
        }));
    }
    // What a server gives may be anything.
    Ok((content, Effects::default().labels()))
}

/// The prompt as one of a server's: its place, and what is to be read of it.
async fn prompt_of(
    home: &Home,
    mention: &Mention<'_>,
    servers: &[ServerConfig],
) -> Result<(usize, Wanted), Failure> {
    let at = server_of(mention, servers, '/')?;
    let words = shlex::split(mention.what);
    let words = words.ok_or_else(|| wrong(mention, '/', "a quotation mark is not closed"))?;
    let (name, given) = words.split_first().map_or(("", &[][..]), |(n, rest)| (n.as_str(), rest));
    let listed = home.mcp.readable(&servers[at]).await?.prompts;
    let Some(prompt) = listed.iter().find(|prompt| prompt.name == name) else {
        let names: Vec<String> = listed.iter().map(|prompt| prompt.name.clone()).collect();
        let hint = near(name, &names);
        let why = match names.is_empty() {
            true => "the server has no prompts".to_owned(),
            false => format!("the server has no prompt `{name}`{hint}"),
        };
        return Err(wrong(mention, '/', &format!("{why}; `inspan mcp list` shows them")));
    };
    let arguments = arguments(prompt, given).map_err(|why| wrong(mention, '/', &why))?;
    Ok((at, Wanted::Prompt(name.to_owned(), arguments)))
}

/// `KEY=VALUE` words as the arguments of a prompt.
fn arguments(prompt: &PromptListed, words: &[String]) -> Result<Map<String, Value>, String> {
    let names: Vec<String> = prompt.arguments.iter().map(|(name, _)| name.clone()).collect();
    let takes = match names.is_empty() {
        true => "it takes no arguments".to_owned(),
        false => format!("it takes {}", names.join(", ")),
    };
    let mut given = Map::new();
    for word in words {
        let (name, value) = word
            .split_once('=')
            .ok_or_else(|| format!("`{word}` is no argument: write NAME=VALUE; {takes}"))?;
        if !names.iter().any(|known| known == name) {
            return Err(format!("no argument is called `{name}`; {takes}"));
        }
        given.insert(name.to_owned(), value.into());
    }
    let is_missing =
        |(name, is_required): &&(String, bool)| *is_required && !given.contains_key(name);
    match prompt.arguments.iter().find(is_missing) {
        Some((name, _)) => Err(format!("it needs `{name}=…`; {takes}")),
        None => Ok(given),
    }
}

fn may_be_meant(name: &str, servers: &[ServerConfig]) -> bool {
    let names: Vec<String> = servers.iter().map(|server| server.name.clone()).collect();
    names.iter().any(|known| known == name) || !near(name, &names).is_empty()
}

fn server_of(
    mention: &Mention<'_>,
    servers: &[ServerConfig],
    sign: char,
) -> Result<usize, Failure> {
    let names: Vec<String> = servers.iter().map(|server| server.name.clone()).collect();
    names.iter().position(|name| name == mention.server).ok_or_else(|| {
        let hint = near(mention.server, &names);
        let why = format!("no MCP server is called `{}`{hint}", mention.server);
        wrong(mention, sign, &why)
    })
}

/// What is wrong with a mention, and how to write it where it is none.
fn wrong(mention: &Mention<'_>, sign: char, why: &str) -> Failure {
    let Mention { server, what } = mention;
    let what = what.split_whitespace().next().unwrap_or_default();
    let plain = match sign {
        '@' => "with a backslash before it",
        _ => "with a space before it",
    };
    Failure::Usage(format!(
        "`{sign}{server}:{what}` in the prompt: {why}; {plain} it is taken as plain words"
    ))
}

/// The prompt as a mention of one of a server's prompts.
fn as_prompt(prompt: &str) -> Option<Mention<'_>> {
    let (server, what) = prompt.strip_prefix('/')?.split_once(':')?;
    (is_name(server) && !what.starts_with(char::is_whitespace) && !what.is_empty())
        .then_some(Mention { server, what: what.trim_end() })
}

/// The resources that a prompt names, in their order.
fn mentions(prompt: &str) -> impl Iterator<Item = Mention<'_>> {
    prompt.split_whitespace().filter_map(|word| {
        let word = word.trim_start_matches(['(', '[', '"', '\'', '`']);
        let (server, what) = word.strip_prefix('@')?.split_once(':')?;
        let what = what.trim_end_matches(['.', ',', ';', ':', '!', '?', '"', '\'', '`', ')', ']']);
        (is_name(server) && !what.is_empty()).then_some(Mention { server, what })
    })
}

/// Whether it can be the name of a server.
fn is_name(word: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !word.is_empty() && word.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentions_are_found_where_they_are_meant() {
        let found = |prompt: &'static str| -> Vec<(&str, &str)> {
            mentions(prompt).map(|mention| (mention.server, mention.what)).collect()
        };
        let table = [
            ("Read @docs:file:///a.md, please.", vec![("docs", "file:///a.md")]),
            ("(@a:x://1) and \"@b:y://2?z=1\"", vec![("a", "x://1"), ("b", "y://2?z=1")]),
            ("Write to me@docs:here or \\@docs:x, @docs or @docs:", vec![]),
            ("@my server:x @a/b:c", vec![]),
        ];
        for (prompt, expected) in table {
            assert_eq!(found(prompt), expected, "{prompt}");
        }
        let table = [
            ("/docs:plan city=Rome\n", Some(("docs", "plan city=Rome"))),
            ("/etc/hosts: what is it?", None),
            (" /docs:plan", None),
            ("/docs: plan", None),
            ("/docs", None),
        ];
        for (prompt, expected) in table {
            let found = as_prompt(prompt).map(|mention| (mention.server, mention.what));
            assert_eq!(found, expected, "{prompt}");
        }
    }

    #[test]
    fn arguments_are_those_of_the_prompt() {
        let listed = vec![("city".to_owned(), true), ("day".to_owned(), false)];
        let prompt =
            PromptListed { name: "plan".to_owned(), about: String::new(), arguments: listed };
        let read = |text: &str| arguments(&prompt, &shlex::split(text).unwrap());
        let given = |pairs: &[(&str, &str)]| -> Map<String, Value> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect()
        };
        let table = [
            ("city=Rome", Ok(given(&[("city", "Rome")]))),
            ("day=1 'city=New York'", Ok(given(&[("day", "1"), ("city", "New York")]))),
            ("day=1", Err("it needs `city=…`; it takes city, day")),
            ("city=Rome when=now", Err("no argument is called `when`; it takes city, day")),
            ("Rome", Err("`Rome` is no argument: write NAME=VALUE; it takes city, day")),
        ];
        for (text, expected) in table {
            assert_eq!(read(text), expected.map_err(str::to_owned), "{text}");
        }
    }
}
