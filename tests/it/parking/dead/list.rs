//! Listing and showing parked events.

use crate::harness::parked_events::{
    BINARY, MARKER, ParkedEvent, assert_contains_all, insert_all, run_command,
};
use testkit::fixture::Fixture;

fn ids(json_lines: &str) -> Vec<i64> {
    let id = |line: &str| {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(object.get("value").is_none() && object.get("value_bytes").is_some(), "{line}");
        object["id"].as_i64().unwrap()
    };
    json_lines.lines().map(id).collect()
}

#[test]
fn the_list_shows_dead_events_and_how_many_more_there_are() {
    let fixture = Fixture::new(BINARY, "list");
    assert_eq!(run_command(&fixture, &["dead", "list"], 0), "no dead events\n");
    let mut rows: Vec<ParkedEvent> =
        (0..105).map(|number| ParkedEvent::dead("orders", number)).collect();
    rows.push(ParkedEvent::waiting("orders", 200, "k"));
    insert_all(&fixture, &rows);
    let text = run_command(&fixture, &["dead", "list"], 0);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 102, "{text}");
    assert!(lines[0].starts_with("ID "), "{text}");
    assert_contains_all(
        lines[1],
        &["dead", "topic-missing", "public.outbox", "orders", "it was refused"],
    );
    assert!(lines[101].contains("5 more"), "{text}");
    let text = run_command(&fixture, &["dead", "list", "--status", "pending", "--limit", "7"], 0);
    assert_eq!(text.lines().count(), 2, "{text}");
    assert_contains_all(&text, &["pending", "behind", "waits", "200"]);
    let all = run_command(
        &fixture,
        &["dead", "list", "--status", "dead,pending", "--limit", "500", "--json"],
        0,
    );
    assert_eq!(ids(&all).len(), 106);
}

#[test]
fn filters_select_events() {
    let fixture = Fixture::new(BINARY, "filters");
    let dead = |number| ParkedEvent::dead("a", number);
    let rows = [
        ParkedEvent { topic: "b".to_owned(), ..dead(0) },
        ParkedEvent { source_table: "x.\"Odd\"", ..dead(1) },
        ParkedEvent { tenant: Some("acme"), ..dead(2) },
        ParkedEvent::keyed("a", 3, "k"),
        ParkedEvent { reason: "too-large", ..dead(4) },
        ParkedEvent { parked_ago: "3 hours", ..dead(5) },
        dead(6),
    ];
    let all = insert_all(&fixture, &rows);
    let check = |flags: &[&str], expect: &[usize]| {
        let arguments = [&["dead", "list", "--json"], flags].concat();
        let expect: Vec<i64> = expect.iter().map(|number| all[*number]).collect();
        assert_eq!(ids(&run_command(&fixture, &arguments, 0)), expect, "{flags:?}");
    };
    check(&["--topic", "b"], &[0]);
    check(&["--table", "x.\"Odd\""], &[1]);
    check(&["--tenant", "acme"], &[2]);
    check(&["--key", "k"], &[3]);
    check(&["--reason", "too-large"], &[4]);
    check(&["--until", "2h"], &[5]);
    check(&["--since", "2h"], &[0, 1, 2, 3, 4, 6]);
    check(&["--since", "2020-01-01T00:00:00+01:00", "--limit", "2"], &[0, 1]);
    check(&["--topic", "a", "--reason", "too-large", "--tenant", "acme"], &[]);
}

#[test]
fn an_event_is_shown_with_its_payload_only_on_request() {
    let fixture = Fixture::new(BINARY, "show");
    let binary = ParkedEvent { value: Some(vec![0xff, 0x00]), ..ParkedEvent::dead("t", 2) };
    let ids = insert_all(&fixture, &[ParkedEvent::keyed("t", 1, "k"), binary]);
    let [first, second] = [ids[0].to_string(), ids[1].to_string()];
    let text = run_command(&fixture, &["dead", "show", &first], 0);
    assert_contains_all(&text, &["ordering key     k", "topic-missing", "[\"id\",\"1\"]", "0/100"]);
    assert!(run_command(&fixture, &["dead", "show", &first, "--payload"], 0).contains(MARKER));
    assert!(
        run_command(&fixture, &["dead", "show", &second, "--payload"], 0).ends_with("\nff00\n")
    );
    let json = run_command(&fixture, &["dead", "show", &first, "--json", "--payload"], 0);
    let object: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(object["value"], format!("{MARKER} 1"));
    assert_eq!((&object["key"], &object["headers"][0][0]), (&"k".into(), &"id".into()));
    let json = run_command(&fixture, &["dead", "show", &second, "--json", "--payload"], 0);
    assert!(json.contains("\"value_hex\":\"ff00\""), "{json}");
    run_command(&fixture, &["dead", "show", "999999"], 1);
}
