//! What stands in `#[tool(…)]`.

use proc_macro2::{Ident, TokenStream};
use syn::{
    LitStr, Token, ext::IdentExt, meta::ParseNestedMeta, parenthesized, parse::Parser,
    punctuated::Punctuated, token::Paren,
};

/// The options; `None` where one is left out.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) name: Option<LitStr>,
    /// The effects that hold; left out means that all may.
    pub(crate) effects: Option<Vec<Ident>>,
    /// A variant of `Repeat`.
    pub(crate) repeat: Option<Ident>,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) polls: bool,
    /// The name of a parameter.
    pub(crate) resource: Option<LitStr>,
}

const OPTIONS: [&str; 6] = ["effects", "repeat", "name", "timeout", "polls", "resource"];

const EFFECTS: [&str; 6] =
    ["reads_private", "reads_untrusted", "writes", "sends", "destroys", "spends"];

/// As they are written, and the variants of `Repeat`.
const REPEATS: [(&str, &str); 4] =
    [("pure", "Pure"), ("idempotent", "Idempotent"), ("keyed", "Keyed"), ("once", "Once")];

impl Options {
    pub(crate) fn read(tokens: TokenStream) -> syn::Result<Self> {
        let mut options = Self::default();
        let mut seen: Vec<String> = Vec::new();
        let parser = syn::meta::parser(|meta| {
            let name = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
            if seen.contains(&name) {
                return Err(meta.error(format!("`{name}` is here a second time: leave one out")));
            }
            options.take(&name, &meta)?;
            seen.push(name);
            Ok(())
        });
        parser.parse2(tokens)?;
        Ok(options)
    }

    fn take(&mut self, name: &str, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        match name {
            "effects" => self.effects = Some(effects(meta)?),
            "repeat" => self.repeat = Some(repeat(meta)?),
            "name" => self.name = Some(tool_name(meta)?),
            "timeout" => self.timeout_ms = Some(timeout(meta)?),
            "polls" if meta.input.peek(Token![=]) => {
                return Err(meta.error("write `polls` alone, or leave it out"));
            }
            "polls" => self.polls = true,
            "resource" => {
                let message = "write the name of a parameter as a text: `resource = \"path\"`";
                self.resource = Some(text(meta, message)?);
            }
            _ => {
                let known = OPTIONS.join(", ");
                return Err(meta.error(format!("no option has this name; there are: {known}")));
            }
        }
        Ok(())
    }
}

fn effects(meta: &ParseNestedMeta<'_>) -> syn::Result<Vec<Ident>> {
    if !meta.input.peek(Paren) {
        return Err(meta.error("write `effects(reads_private, writes)`, or `effects()` for none"));
    }
    let list;
    parenthesized!(list in meta.input);
    let names = Punctuated::<Ident, Token![,]>::parse_terminated_with(&list, Ident::parse_any)?;
    match names.iter().find(|name| EFFECTS.iter().all(|effect| *name != effect)) {
        Some(unknown) => {
            let message = format!("no effect has this name; there are: {}", EFFECTS.join(", "));
            Err(syn::Error::new(unknown.span(), message))
        }
        None => Ok(names.into_iter().collect()),
    }
}

fn repeat(meta: &ParseNestedMeta<'_>) -> syn::Result<Ident> {
    let value = meta.value()?;
    if value.peek(LitStr) {
        return Err(value.error("write it without quotes: `repeat = pure`"));
    }
    let written: Ident = value.parse()?;
    let wrong = |message: &str| Err(syn::Error::new(written.span(), message));
    if written == "probe" {
        return wrong(
            "a function can't be asked whether it happened: implement `inspan::Tool` for a type \
             of your own, with its `probe`",
        );
    }
    match REPEATS.iter().find(|(name, _)| written == name) {
        Some((_, variant)) => Ok(Ident::new(variant, written.span())),
        None => wrong(
            "no way to repeat has this name; there are: pure, idempotent, keyed, once (which it \
             is when left out)",
        ),
    }
}

fn tool_name(meta: &ParseNestedMeta<'_>) -> syn::Result<LitStr> {
    let name = text(meta, "write the name as a text: `name = \"search-orders\"`")?;
    let text = name.value();
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if (1..=64).contains(&text.len()) && text.chars().all(fits) {
        return Ok(name);
    }
    let message = "a tool's name has 1 to 64 of A-Z, a-z, 0-9, `_` and `-`: no other is taken by \
         every provider";
    Err(syn::Error::new(name.span(), message))
}

/// A text in quotes; `message` says how to write it.
fn text(meta: &ParseNestedMeta<'_>, message: &str) -> syn::Result<LitStr> {
    let value = meta.value()?;
    if value.peek(LitStr) { value.parse() } else { Err(value.error(message)) }
}

fn timeout(meta: &ParseNestedMeta<'_>) -> syn::Result<u64> {
    let written = text(meta, "write a time as a text: `timeout = \"20s\"`")?;
    milliseconds(&written.value()).filter(|ms| *ms > 0).ok_or_else(|| {
        let message = "write a time such as \"850ms\", \"20s\", \"10m\" or \"1h30m\"";
        syn::Error::new(written.span(), message)
    })
}

/// `1h30m` in milliseconds. Numbers with a unit, joined; nothing else.
fn milliseconds(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let unit_end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let factor: u64 = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return None,
        };
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(factor)?)?;
        rest = after;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let table = [
            ("850ms", Some(850)),
            ("20s", Some(20_000)),
            ("1h30m", Some(5_400_000)),
            ("", Some(0)),
            ("20", None),
            ("s", None),
            ("20 s", None),
            ("1d", None),
            ("99999999999999999999s", None),
        ];
        for (text, ms) in table {
            assert_eq!(milliseconds(text), ms, "{text}");
        }
    }
}
