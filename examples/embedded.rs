//! Two relays in one program, for two outboxes, with one HTTP endpoint for both.
//!
//! ```text
//! postrider --config orders.toml migrate && postrider --config invoices.toml migrate
//! cargo run --release --example embedded -- 127.0.0.1:7678 orders.toml invoices.toml &
//! curl localhost:7678/readyz                               # ready
//! curl localhost:7678/metrics | grep 'relay="orders"'
//! ```
//!
//! docs/embedding.md explains this example. Each file is the configuration of one relay, as
//! `postrider run` would read it; `http.listen` is ignored. If both relays use one database, give
//! them different slots.

use std::error::Error;
use std::io::IsTerminal;
use std::process::ExitCode;

use postrider::relay::{Endpoint, Fatal, Relay};
use postrider::shutdown::Shutdown;
use postrider::sink::kafka::Kafka;
use postrider::{Config, Needs};
use tracing_subscriber::EnvFilter;

const USAGE: u8 = 2;
const OPERATOR: u8 = 3;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, orders, invoices] = arguments.as_slice() else {
        eprintln!("usage: embedded ADDRESS ORDERS.toml INVOICES.toml");
        return ExitCode::from(USAGE);
    };
    let load = |file: &String| Config::from_file(file, Needs::PostgresAndKafka);
    let (orders, invoices) = match (load(orders), load(invoices)) {
        (Ok(orders), Ok(invoices)) => (orders, invoices),
        (orders, invoices) => {
            for error in [orders.err(), invoices.err()].into_iter().flatten() {
                eprintln!("embedded: {error}");
            }
            return ExitCode::from(USAGE);
        }
    };
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(&orders.log.filter))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    match run(address, orders, invoices) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("embedded: {error}");
            if let Some(fatal) = error.downcast_ref::<Fatal>() {
                eprintln!("fix: {}", fatal.fix());
            }
            ExitCode::from(OPERATOR)
        }
    }
}

fn run(address: &str, orders: Config, invoices: Config) -> Result<(), Box<dyn Error>> {
    let address = address.parse()?;
    // The futures of relays are not `Send`: they run on one thread, on a runtime for one thread.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        // The first SIGTERM or Ctrl-C drains both relays, the second stops them immediately.
        let (_signals, shutdown) = Shutdown::on_signals()?;
        let endpoint = Endpoint::start(address)?;
        let kafka = Kafka::new(&orders.kafka);
        let orders = Relay::builder(orders).sink(kafka).report_to(&endpoint, "orders")?;
        let kafka = Kafka::new(&invoices.kafka);
        let invoices = Relay::builder(invoices).sink(kafka).report_to(&endpoint, "invoices")?;
        // If one of them needs an operator, the other one continues, and /readyz names the one that
        // has ended.
        let (orders, invoices) = tokio::join!(orders.run(shutdown.clone()), invoices.run(shutdown));
        orders?;
        Ok(invoices?)
    });
    // A request to a broker that is unreachable may still be waiting for its answer.
    runtime.shutdown_background();
    result
}
