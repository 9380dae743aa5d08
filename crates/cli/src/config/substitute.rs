//! `${NAME}` in the texts of `config.yaml`.

/// Why a text can't be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SubstituteError {
    /// The variable has no value, and no default stands beside it.
    #[error("the variable {0} is not set")]
    Unset(String),
    /// A `${` that is never closed.
    #[error("a `${{` is not closed; write $$ for a plain $")]
    Open,
    /// Something else in the braces.
    #[error("`${{{0}}}` is neither ${{NAME}} nor ${{NAME:-DEFAULT}}; write $$ for a plain $")]
    Form(String),
}

/// The text with `${NAME}` and `${NAME:-DEFAULT}` replaced by what `lookup` gives; the default
/// also stands for an empty value. `$$` is a plain `$`, and so is a `$` before anything else.
pub(super) fn substitute(
    text: &str,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<String, SubstituteError> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, after)) = rest.split_once('$') {
        out.push_str(plain);
        if let Some(inside) = after.strip_prefix('{') {
            let (inside, after) = inside.split_once('}').ok_or(SubstituteError::Open)?;
            out.push_str(&value(inside, &lookup)?);
            rest = after;
        } else {
            out.push('$');
            rest = after.strip_prefix('$').unwrap_or(after);
        }
    }
    out.push_str(rest);
    Ok(out)
}

fn value(inside: &str, lookup: impl Fn(&str) -> Option<String>) -> Result<String, SubstituteError> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !name.starts_with(|c: char| in_name(c) && !c.is_ascii_digit()) || !name.chars().all(in_name)
    {
        return Err(SubstituteError::Form(inside.to_owned()));
    }
    match (lookup(name), default) {
        (Some(value), Some(default)) if value.is_empty() => Ok(default.to_owned()),
        (Some(value), _) => Ok(value),
        (None, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(SubstituteError::Unset(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced() {
        let lookup = |name: &str| match name {
            "HOST" => Some("box".to_owned()),
            "EMPTY" => Some(String::new()),
            "MONEY" => Some("${HOST}$$".to_owned()),
            _ => None,
        };
        let form = |inside: &str| Err(SubstituteError::Form(inside.to_owned()));
        let table = [
            ("", Ok("")),
            ("plain", Ok("plain")),
            ("http://${HOST}:80/${HOST}", Ok("http://box:80/box")),
            ("${PORT:-8080}${HOST:-x}", Ok("8080box")),
            ("a${EMPTY}b${EMPTY:-c}${PORT:-}", Ok("abc")),
            ("$$ $${HOST} $HOST 5$", Ok("$ ${HOST} $HOST 5$")),
            ("${MONEY}", Ok("${HOST}$$")),
            ("é${HOST}é", Ok("éboxé")),
            ("${PORT}", Err(SubstituteError::Unset("PORT".to_owned()))),
            ("${HOST", Err(SubstituteError::Open)),
            ("${}", form("")),
            ("${1X}", form("1X")),
            ("${HOST-x}", form("HOST-x")),
        ];
        for (text, expected) in table {
            assert_eq!(substitute(text, lookup), expected.map(str::to_owned), "{text}");
        }
        assert_eq!(
            SubstituteError::Form("A?b".to_owned()).to_string(),
            "`${A?b}` is neither ${NAME} nor ${NAME:-DEFAULT}; write $$ for a plain $"
        );
    }
}
