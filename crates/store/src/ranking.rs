//! Texts ranked by their words, in a full-text index of SQLite in memory.

use std::sync::Arc;

use inspan_core::{gate::BoxFuture, store::StoreError};
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions},
};
use tokio::sync::OnceCell;

use crate::words::words;

/// What is said of one thing, from what counts most to what counts least.
pub type Said = [String; 4];

/// Ranks things by how well what is said of them fits a question: BM25 over the stems of English
/// words. The index is made with the first question.
#[derive(Clone, Debug)]
pub struct Ranking {
    said: Arc<[Said]>,
    index: Arc<OnceCell<SqlitePool>>,
}

impl Ranking {
    /// A ranking of these things.
    pub fn of(said: impl IntoIterator<Item = Said>) -> Self {
        Self { said: said.into_iter().collect(), index: Arc::default() }
    }

    /// The places of those that fit best, best first. What has none of the words is not among them.
    ///
    /// # Errors
    /// There is no memory for the index.
    pub fn best(
        &self,
        question: &str,
        count_max: usize,
    ) -> BoxFuture<'static, Result<Vec<usize>, StoreError>> {
        let Self { said, index } = self.clone();
        let any: Vec<String> =
            apart(question).iter().flat_map(|text| words(text)).map(|word| quoted(&word)).collect();
        Box::pin(async move {
            if any.is_empty() {
                return Ok(Vec::new());
            }
            let index =
                index.get_or_try_init(|| indexed(&said)).await.map_err(|error| failed(&error))?;
            let found: Vec<i64> = sqlx::query_scalar(BEST)
                .bind(any.join(" OR "))
                .bind(i64::try_from(count_max).unwrap_or(i64::MAX))
                .fetch_all(index)
                .await
                .map_err(|error| failed(&error))?;
            Ok(found.into_iter().filter_map(|row| usize::try_from(row).ok()).collect())
        })
    }
}

const TABLE: &str = "
    CREATE VIRTUAL TABLE said USING fts5 (
        a, b, c, d, content = '', tokenize = 'porter unicode61 remove_diacritics 2'
    )";

const INSERT: &str = "INSERT INTO said (rowid, a, b, c, d) VALUES ($1, $2, $3, $4, $5)";

const BEST: &str = "
    SELECT rowid FROM said WHERE said MATCH $1
    ORDER BY bm25(said, 8.0, 4.0, 2.0, 1.0), rowid LIMIT $2";

async fn indexed(said: &[Said]) -> sqlx::Result<SqlitePool> {
    // One connection, and it stays: with it goes what is in memory.
    let index = SqlitePoolOptions::new()
        .max_connections(1)
        .test_before_acquire(false)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_with(SqliteConnectOptions::new().in_memory(true))
        .await?;
    let mut all = index.begin().await?;
    sqlx::query(TABLE).execute(&mut *all).await?;
    for (row, texts) in (0_i64..).zip(said) {
        let mut insert = sqlx::query(INSERT).bind(row);
        for text in texts {
            insert = insert.bind(apart(text).join(" "));
        }
        insert.execute(&mut *all).await?;
    }
    all.commit().await?;
    Ok(index)
}

/// A text, and the words that stand together in its `camelCase` names.
fn apart(text: &str) -> [String; 2] {
    let mut parts = String::new();
    let mut was_lower = false;
    for c in text.chars() {
        if c.is_uppercase() && was_lower {
            parts.push(' ');
        }
        was_lower = c.is_lowercase() || c.is_numeric();
        parts.push(c);
    }
    match parts == text {
        true => [text.to_owned(), String::new()],
        false => [text.to_owned(), parts],
    }
}

fn quoted(word: &str) -> String {
    format!("\"{word}\"")
}

fn failed(error: &sqlx::Error) -> StoreError {
    StoreError::Other { what: "the index of texts".to_owned(), why: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_fits_best_comes_first() {
        let texts = [
            ["create_issue", "github", "Opens a new issue in a repository.", "title body"],
            ["listPullRequests", "github", "Shows the open pull requests.", "state"],
            ["read_file", "files", "Reads a file; an issue of it is an error.", "path"],
            ["café_menu", "food", "Was es gibt.", ""],
        ];
        let ranking = Ranking::of(texts.map(|texts| texts.map(str::to_owned)));
        let table: [(&str, usize, &[usize]); 9] = [
            ("issue", 9, &[0, 2]),
            ("issues, creating", 9, &[0, 2]),
            ("issue", 1, &[0]),
            ("pull request", 9, &[1]),
            ("listPullRequests", 9, &[1]),
            ("CAFE", 9, &[3]),
            ("github", 9, &[1, 0]),
            ("\" OR * NEAR( -", 9, &[]),
            ("", 9, &[]),
        ];
        for (question, count_max, expected) in table {
            let best = ranking.best(question, count_max).await;
            assert_eq!(best.as_deref(), Ok(expected), "{question}");
        }
        assert_eq!(Ranking::of([]).best("x", 9).await, Ok(Vec::new()));
    }
}
