//! An order service, to be copied: HTTP → one transaction with order and event → outbox → Kafka →
//! a consumer that ships each order once, however often its record comes.
//!
//! ```text
//! export POSTRIDER_DATABASE_URL=postgres://localhost/shop POSTRIDER_BROKERS=localhost:9092
//! postrider migrate && postrider run &                     # the topic `orders` must exist
//! cargo run --release --example orders &
//! curl -H 'content-type: application/json' -d '{"customer": "ann", "item": "book"}' \
//!   localhost:8080/orders
//! curl localhost:8080/orders/1                             # {"item":"book","shipped":true}
//! ```
//!
//! A service of your own needs in Cargo.toml:
//! `postrider-outbox = { version = "0.1", features = ["sqlx"] }`.

use std::env::var;
use std::error::Error;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use postrider_outbox::{Event, enqueue, inbox, with_transaction};
use rdkafka::ClientConfig;
use rdkafka::consumer::{CommitMode, Consumer, StreamConsumer};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

type Anything = Box<dyn Error + Send + Sync>;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS orders (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text NOT NULL, item text NOT NULL);
    CREATE TABLE IF NOT EXISTS shipments (order_id bigint NOT NULL, shipped_at timestamptz DEFAULT now())";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Anything> {
    let setting = |name: &str, default: &str| var(name).unwrap_or_else(|_| default.to_owned());
    let url = setting("POSTRIDER_DATABASE_URL", "postgres://localhost/shop");
    let topic = setting("ORDERS_TOPIC", "orders");
    let pool = PgPoolOptions::new().max_connections(10).connect(&url).await?;
    sqlx::raw_sql(TABLES).execute(&pool).await?;
    let consumer: StreamConsumer = ClientConfig::new()
        .set("bootstrap.servers", setting("POSTRIDER_BROKERS", "localhost:9092"))
        .set("group.id", setting("ORDERS_GROUP", "shipping"))
        .set("auto.offset.reset", "earliest")
        // Offsets are committed once the effect is.
        .set("enable.auto.commit", "false")
        .create()?;
    consumer.subscribe(&[&topic])?;

    let service = Service { pool: pool.clone(), topic };
    let routes = Router::new()
        .route("/orders", post(place_order))
        .route("/orders/{id}", get(show_order))
        .with_state(service);
    let listener =
        tokio::net::TcpListener::bind(setting("ORDERS_LISTEN", "127.0.0.1:8080")).await?;
    // In production these are two programs, perhaps with two databases.
    tokio::try_join!(
        async { axum::serve(listener, routes).await.map_err(Anything::from) },
        ship_orders(consumer, pool),
    )?;
    Ok(())
}

#[derive(Clone)]
struct Service {
    pool: PgPool,
    topic: String,
}

#[derive(Deserialize)]
struct NewOrder {
    customer: String,
    item: String,
}

/// The event: what others need to know, not the row.
#[derive(Serialize, Deserialize)]
struct OrderPlaced {
    order: i64,
    customer: String,
    item: String,
}

/// The order and its event are committed together, or neither is.
async fn place_order(
    State(mut service): State<Service>,
    Json(order): Json<NewOrder>,
) -> Result<(StatusCode, Json<OrderPlaced>), Failure> {
    let NewOrder { customer, item } = order;
    let topic = service.topic;
    let placed = with_transaction(&mut service.pool, async |transaction| {
        let insert = "INSERT INTO orders (customer, item) VALUES ($1, $2) RETURNING id";
        let insert = sqlx::query_scalar(insert).bind(&customer).bind(&item);
        let order: i64 = insert.fetch_one(&mut **transaction).await?;
        let placed = OrderPlaced { order, customer, item };
        let event = Event::json(topic, &placed)?
            .event_type("OrderPlaced")
            // Events of one customer stay in order.
            .ordering_key(&placed.customer)
            // If it is written twice, it is still one event.
            .idempotency_key(format!("order-{order}-placed"));
        enqueue(transaction, &event).await?;
        Ok::<_, Anything>(placed)
    });
    Ok((StatusCode::CREATED, Json(placed.await?)))
}

#[derive(Serialize)]
struct Order {
    item: String,
    shipped: bool,
}

async fn show_order(
    State(service): State<Service>,
    Path(id): Path<i64>,
) -> Result<Response, Failure> {
    let select = "SELECT item, EXISTS (SELECT FROM shipments WHERE order_id = id)
        FROM orders WHERE id = $1";
    let row: Option<(String, bool)> =
        sqlx::query_as(select).bind(id).fetch_optional(&service.pool).await?;
    Ok(match row {
        Some((item, shipped)) => Json(Order { item, shipped }).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    })
}

/// The consumer. Records come at least once: a crash, a rebalance or a replay repeats them.
async fn ship_orders(consumer: StreamConsumer, mut pool: PgPool) -> Result<(), Anything> {
    loop {
        let record = consumer.recv().await?;
        let Some((key, placed)) = read(&record) else {
            // It would not become an order by waiting, and all orders after it would wait.
            eprintln!("skipped a record that is not an order, at offset {}", record.offset());
            continue;
        };
        with_transaction(&mut pool, async |transaction| {
            // The claim is part of the transaction: if that does not commit, it was never made.
            if inbox::claim(transaction, "shipping", key).await? {
                let ship = sqlx::query("INSERT INTO shipments (order_id) VALUES ($1)");
                ship.bind(placed.order).execute(&mut **transaction).await?;
                println!("shipped order {} to {}", placed.order, placed.customer);
            } else {
                println!("order {} was shipped already", placed.order);
            }
            Ok::<_, Anything>(())
        })
        .await?;
        consumer.commit_message(&record, CommitMode::Async)?;
    }
}

fn read<'a>(record: &'a BorrowedMessage<'_>) -> Option<(&'a str, OrderPlaced)> {
    let placed = serde_json::from_slice(record.payload()?).ok()?;
    Some((header(record, "idempotency-key")?, placed))
}

fn header<'a>(record: &'a BorrowedMessage<'_>, name: &str) -> Option<&'a str> {
    let mut headers = record.headers()?.iter();
    std::str::from_utf8(headers.find(|header| header.key == name)?.value?).ok()
}

/// The error is logged; clients only get status 500.
struct Failure(Anything);

impl<E: Into<Anything>> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure(error.into())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        eprintln!("{}", self.0);
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}
