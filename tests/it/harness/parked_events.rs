//! Rows in the side table that no relay has parked, and commands that handle them.

use std::process::Output;

use postgres::Client;

use testkit::fixture::Fixture;

pub const BINARY: &str = env!("CARGO_BIN_EXE_postrider");
/// Part of every payload, and nowhere else.
pub const MARKER: &str = "s3cret-payload";

/// A row of the side table. Its position in the log is its ordinal, before the confirmed position.
#[derive(Clone)]
pub struct ParkedEvent {
    pub topic: String,
    pub ordinal: i64,
    pub ordering_key: Option<&'static str>,
    pub tenant: Option<&'static str>,
    pub source_table: &'static str,
    pub status: &'static str,
    pub reason: &'static str,
    pub form: &'static str,
    pub commit_lsn: &'static str,
    pub value: Option<Vec<u8>>,
    pub parked_ago: &'static str,
    /// It waits for an earlier event of its key.
    pub waits_for_earlier: bool,
}

impl ParkedEvent {
    pub fn dead(topic: &str, ordinal: i64) -> ParkedEvent {
        ParkedEvent {
            topic: topic.to_owned(),
            ordinal,
            ordering_key: None,
            tenant: None,
            source_table: "public.outbox",
            status: "dead",
            reason: "topic-missing",
            form: "whole",
            commit_lsn: "0/100",
            value: Some(format!("{MARKER} {ordinal}").into_bytes()),
            parked_ago: "0s",
            waits_for_earlier: false,
        }
    }

    pub fn keyed(topic: &str, ordinal: i64, ordering_key: &'static str) -> ParkedEvent {
        ParkedEvent { ordering_key: Some(ordering_key), ..ParkedEvent::dead(topic, ordinal) }
    }

    /// Waits for an earlier event of its key.
    pub fn waiting(topic: &str, ordinal: i64, ordering_key: &'static str) -> ParkedEvent {
        let keyed = ParkedEvent::keyed(topic, ordinal, ordering_key);
        ParkedEvent { status: "pending", reason: "behind", waits_for_earlier: true, ..keyed }
    }

    /// Returns its id in the side table.
    #[track_caller]
    pub fn insert(&self, fixture: &Fixture, client: &mut Client) -> i64 {
        let sql = "INSERT INTO postrider.undelivered \
            (slot, source_table, row_id, idempotency_key, ordering_key, tenant, commit_lsn, \
             ordinal, topic, key, value, value_bytes, headers, \"timestamp\", form, status, \
             reason, last_error, next_attempt_at, created_at) \
          SELECT $1, $2, $3::bigint::text, 'i-' || $3::bigint, $4::text, $5::text, \
             $6::text::pg_lsn, $3::bigint, $7::text, convert_to($4::text, 'UTF8'), $8::bytea, \
             coalesce(octet_length($8::bytea), 0), \
             json_build_array(json_build_array('id', $3::bigint::text)), \
             '2026-01-01T00:00:00Z'::timestamptz, $9::text, $10::text, $11::text, \
             'it was refused', CASE WHEN $12::bool THEN 'infinity' ELSE now() END, \
             now() - $13::text::interval RETURNING id";
        let row = client.query_one(
            sql,
            &[
                &fixture.slot(),
                &self.source_table,
                &self.ordinal,
                &self.ordering_key,
                &self.tenant,
                &self.commit_lsn,
                &self.topic,
                &self.value,
                &self.form,
                &self.status,
                &self.reason,
                &self.waits_for_earlier,
                &self.parked_ago,
            ],
        );
        row.unwrap().get(0)
    }
}

#[track_caller]
pub fn insert_all(fixture: &Fixture, rows: &[ParkedEvent]) -> Vec<i64> {
    let mut client = fixture.client();
    rows.iter().map(|row| row.insert(fixture, &mut client)).collect()
}

/// `ordinal status attempts` of every row; `~` marks those that wait for an earlier one.
#[track_caller]
pub fn states(fixture: &Fixture) -> Vec<String> {
    let sql = "SELECT ordinal || ' ' || status || ' ' || attempts \
            || CASE WHEN next_attempt_at = 'infinity' THEN '~' ELSE '' END \
         FROM postrider.undelivered ORDER BY ordinal";
    fixture.client().query(sql, &[]).unwrap().iter().map(|row| row.get(0)).collect()
}

#[track_caller]
pub fn count(fixture: &Fixture, status: &str) -> i64 {
    let sql = "SELECT count(*) FROM postrider.undelivered WHERE status = $1";
    fixture.client().query_one(sql, &[&status]).unwrap().get(0)
}

/// Runs a command that must exit with this code and print no payload, and returns its standard
/// output.
#[track_caller]
pub fn run_command(fixture: &Fixture, arguments: &[&str], code: i32) -> String {
    let output = fixture.run(arguments);
    assert_exit_code(&output, code);
    let [text, errors] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    if !arguments.contains(&"--payload") {
        assert!(!text.contains(MARKER) && !errors.contains(MARKER), "{text}\n{errors}");
    }
    text.into_owned()
}

#[track_caller]
pub fn assert_exit_code(output: &Output, code: i32) {
    let [text, errors] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    assert_eq!(output.status.code(), Some(code), "{text}\n{errors}");
}

#[track_caller]
pub fn assert_contains_all(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}
