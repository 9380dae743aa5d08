//! The shop's orders, in SQLite. Nothing here knows of an agent.

use std::{fmt, path::Path};

use sqlx::{
    FromRow, Row, SqlitePool,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteRow},
};

/// Orders that a search gives at most.
const FOUND_MAX: i64 = 20;

/// One order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Its number.
    pub id: i64,
    /// Who ordered.
    pub customer: String,
    /// What.
    pub item: String,
    /// The price in cents of a euro.
    pub cents: i64,
    /// `placed`, `shipped` or `refunded`.
    pub status: String,
}

impl FromRow<'_, SqliteRow> for Order {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        Ok(Self {
            id: row.try_get("id")?,
            customer: row.try_get("customer")?,
            item: row.try_get("item")?,
            cents: row.try_get("cents")?,
            status: row.try_get("status")?,
        })
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, customer, item, cents, status } = self;
        write!(f, "Order {id}: {item} for {customer}, {}, {status}.", euros(*cents))
    }
}

/// An amount for people.
pub fn euros(cents: i64) -> String {
    format!("{}.{:02} €", cents / 100, cents % 100)
}

/// The table of orders.
#[derive(Clone, Debug)]
pub struct Orders(SqlitePool);

impl Orders {
    /// Opens the orders in a file; a file that is not there begins with the orders of the example.
    ///
    /// # Errors
    /// What SQLite says.
    pub async fn open(path: impl AsRef<Path>) -> sqlx::Result<Self> {
        let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
        // A transaction takes the write lock at its first write; one writer needs one connection.
        let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await?;
        let is_new = sqlx::query("SELECT 1 FROM sqlite_master WHERE name = 'orders'");
        if is_new.fetch_optional(&pool).await?.is_none() {
            sqlx::raw_sql(include_str!("orders.sql")).execute(&pool).await?;
        }
        Ok(Self(pool))
    }

    /// The order of this number.
    ///
    /// # Errors
    /// What SQLite says.
    pub async fn get(&self, id: i64) -> sqlx::Result<Option<Order>> {
        let order = sqlx::query_as("SELECT * FROM orders WHERE id = ?").bind(id);
        order.fetch_optional(&self.0).await
    }

    /// Orders whose customer or item contains `text`, by number, at most twenty.
    ///
    /// # Errors
    /// What SQLite says.
    pub async fn search(&self, text: &str) -> sqlx::Result<Vec<Order>> {
        let found =
            "SELECT * FROM orders WHERE instr(lower(customer || char(10) || item), lower(?))
                     ORDER BY id LIMIT ?";
        sqlx::query_as(found).bind(text).bind(FOUND_MAX).fetch_all(&self.0).await
    }

    /// Gives the money of a placed order back; whether it did so. The same `key` does it once,
    /// however often it is called, and says yes each time.
    ///
    /// # Errors
    /// What SQLite says.
    pub async fn refund(&self, id: i64, key: &str) -> sqlx::Result<bool> {
        let mut transaction = self.0.begin().await?;
        let order = "UPDATE orders SET status = 'refunded' WHERE id = ? AND status = 'placed'";
        let changed = sqlx::query(order).bind(id).execute(&mut *transaction).await?;
        if changed.rows_affected() == 1 {
            let refund = sqlx::query("INSERT INTO refunds (order_id, key) VALUES (?, ?)");
            refund.bind(id).bind(key).execute(&mut *transaction).await?;
        }
        let refund = sqlx::query("SELECT 1 FROM refunds WHERE order_id = ? AND key = ?");
        let is_ours = refund.bind(id).bind(key).fetch_optional(&mut *transaction).await?.is_some();
        transaction.commit().await?;
        Ok(is_ours)
    }

    /// All orders, by number.
    ///
    /// # Errors
    /// What SQLite says.
    pub async fn all(&self) -> sqlx::Result<Vec<Order>> {
        sqlx::query_as("SELECT * FROM orders ORDER BY id").fetch_all(&self.0).await
    }
}
