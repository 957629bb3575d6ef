//! The inbox: a consumer's effect happens once, however often its event is delivered.

use std::process::Command;
use std::sync::Barrier;
use std::time::Duration;

use postgres::error::SqlState;
use postrider::inbox;

use crate::enqueue::{number, runtime, sqlx, text, tokio_postgres, wait_for_waiting};
use testkit::fixture::Fixture;
use testkit::shared;

const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
const CLAIM: &str = "SELECT postrider.inbox_claim('shipping', $1)";

#[test]
fn the_second_claim_waits_for_the_first_and_sees_how_it_ended() {
    for commits in [true, false] {
        let fixture = Fixture::new(BINARY, "inbox");
        let mut client = fixture.client();
        let mut first = client.transaction().unwrap();
        assert!(first.query_one(CLAIM, &[&"k"]).unwrap().get::<_, bool>(0));
        std::thread::scope(|scope| {
            let second = scope
                .spawn(|| fixture.client().query_one(CLAIM, &[&"k"]).unwrap().get::<_, bool>(0));
            wait_for_waiting(&fixture, 1, "inbox_claim");
            if commits {
                first.commit().unwrap()
            } else {
                first.rollback().unwrap()
            }
            assert_eq!(second.join().unwrap(), !commits);
        });
    }
}

#[test]
fn one_of_fifty_consumers_handles_each_event() {
    let fixture = Fixture::new(BINARY, "fifty_claims");
    fixture.client().batch_execute("CREATE TABLE effects (key text)").unwrap();
    let together = Barrier::new(50);
    std::thread::scope(|scope| {
        for consumer in 0..50 {
            let (fixture, together) = (&fixture, &together);
            scope.spawn(move || {
                let mut client = fixture.client();
                together.wait();
                for key in 0..20 {
                    let key = format!("k-{key}");
                    let mut transaction = client.transaction().unwrap();
                    if transaction.query_one(CLAIM, &[&key]).unwrap().get(0) {
                        transaction.execute("INSERT INTO effects VALUES ($1)", &[&key]).unwrap();
                        // Some consumers fail in the middle.
                        if consumer % 5 == 0 {
                            transaction.rollback().unwrap();
                            continue;
                        }
                    }
                    transaction.commit().unwrap();
                }
            });
        }
    });
    let mut client = fixture.client();
    assert_eq!(number(&mut client, "SELECT count(*) FROM effects"), 20);
    assert_eq!(number(&mut client, "SELECT count(DISTINCT key) FROM effects"), 20);
}

#[test]
fn each_consumer_has_its_own_claims_and_bad_names_are_refused() {
    let fixture = Fixture::new(BINARY, "claims");
    let mut client = fixture.client();
    assert!(client.query_one(CLAIM, &[&"k"]).unwrap().get::<_, bool>(0));
    assert!(!client.query_one(CLAIM, &[&"k"]).unwrap().get::<_, bool>(0));
    let other = "SELECT postrider.inbox_claim('billing', 'k')";
    assert!(client.query_one(other, &[]).unwrap().get::<_, bool>(0));
    for bad in [
        "'', 'k'",
        "NULL, 'k'",
        "'c', ''",
        "'c', NULL",
        "repeat('c', 256), 'k'",
        "'c', repeat('k', 513)",
    ] {
        let error =
            client.batch_execute(&format!("SELECT postrider.inbox_claim({bad})")).unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::INVALID_PARAMETER_VALUE), "{bad}: {error}");
    }
}

#[test]
fn old_claims_are_deleted_in_batches() {
    let fixture = Fixture::new(BINARY, "clean");
    let mut client = fixture.client();
    let old = "INSERT INTO postrider.inbox SELECT 'shipping', n::text, now() - interval '8 days'
            FROM generate_series(1, 25) AS n;
        INSERT INTO postrider.inbox SELECT 'billing', n::text, now() - interval '8 days'
            FROM generate_series(1, 5) AS n;
        INSERT INTO postrider.inbox SELECT 'shipping', 'new ' || n, now() - interval '6 days'
            FROM generate_series(1, 7) AS n";
    client.batch_execute(old).unwrap();
    let clean = "SELECT postrider.inbox_clean('7 days', 'shipping', 10)";
    let cleaned = [(); 4].map(|()| number(&mut client, clean));
    assert_eq!(cleaned, [10, 10, 5, 0]);
    let runtime = runtime();
    let rest = runtime.block_on(async {
        let mut client = tokio_postgres(&fixture).await;
        let mut transaction = client.transaction().await.unwrap();
        let week = Duration::from_secs(7 * 24 * 3600);
        let rest = inbox::clean(&mut transaction, week).await.unwrap();
        transaction.commit().await.unwrap();
        rest
    });
    assert_eq!(rest, 5);
    assert_eq!(number(&mut client, "SELECT count(*) FROM postrider.inbox"), 7);
    for bad in ["NULL", "'-1 day'", "'1 day', batch => 0"] {
        let error =
            client.batch_execute(&format!("SELECT postrider.inbox_clean({bad})")).unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::INVALID_PARAMETER_VALUE), "{bad}: {error}");
    }
}

#[test]
fn the_library_claims_with_both_drivers() {
    let fixture = Fixture::new(BINARY, "library_claims");
    runtime().block_on(async {
        let mut client = tokio_postgres(&fixture).await;
        let mut transaction = client.transaction().await.unwrap();
        assert!(inbox::claim(&mut transaction, "shipping", "k").await.unwrap());
        assert!(!inbox::claim(&mut transaction, "shipping", "k").await.unwrap());
        let error = inbox::claim(&mut transaction, "shipping", "").await.unwrap_err();
        assert!(error.to_string().starts_with("idempotency_key is empty"), "{error}");
        transaction.commit().await.unwrap();
        let pool = sqlx(&fixture).await;
        let mut transaction = pool.begin().await.unwrap();
        assert!(!inbox::claim(&mut transaction, "shipping", "k").await.unwrap());
        assert!(inbox::claim(&mut transaction, "shipping", "l").await.unwrap());
        transaction.rollback().await.unwrap();
        let mut transaction = pool.begin().await.unwrap();
        assert!(inbox::claim(&mut transaction, "shipping", "l").await.unwrap());
        transaction.commit().await.unwrap();
        pool.close().await;
    });
}

#[test]
fn a_consumers_own_database_needs_one_file() {
    let (server, broker) = shared::pair();
    let fixture = Fixture::unmigrated(BINARY, "own", &server.address(), &broker);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0006_inbox.sql");
    let run = || {
        let mut psql: Command = server.tool("psql");
        psql.args([
            "--no-psqlrc",
            "--quiet",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
            fixture.database(),
            "-f",
            file,
        ]);
        let output = psql.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run();
    let mut client = fixture.client();
    assert!(client.query_one(CLAIM, &[&"k"]).unwrap().get::<_, bool>(0));
    run();
    // It can also become the database of an outbox, which keeps the claims.
    fixture.migrate();
    assert_eq!(text(&mut client, "SELECT idempotency_key FROM postrider.inbox"), "k");
}
