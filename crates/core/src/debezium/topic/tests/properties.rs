//! Which characters have a property, compared with what `Record.java` has recorded.

use std::collections::HashMap;

use regex::Regex;

use crate::debezium::topic::property;

#[derive(serde::Deserialize)]
struct Recorded {
    property: String,
    ignores_case: bool,
    count: usize,
    checksum: u32,
}

#[test]
fn properties_are_those_of_java() {
    let recorded: Vec<Recorded> = serde_json::from_str(include_str!("properties.json")).unwrap();
    let all: String = ('\0'..=char::MAX).collect();
    // Many properties have several names.
    let mut known = HashMap::new();
    let mut wrong = Vec::new();
    for Recorded { property, ignores_case, count, checksum } in recorded {
        let class = property::class(&property, ignores_case).unwrap();
        let found = *known.entry(class).or_insert_with_key(|class| count_and_checksum(class, &all));
        if found != (count, checksum) {
            wrong.push(format!("{property}, {ignores_case}: {found:?}, Java {count} {checksum}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn count_and_checksum(class: &str, all: &str) -> (usize, u32) {
    let regex = Regex::new(&format!("{class}+")).unwrap();
    let found = regex.find_iter(all).flat_map(|run| run.as_str().chars());
    found.fold((0, 0), |(count, sum), char| {
        (count + 1, sum.wrapping_mul(31).wrapping_add(char.into()))
    })
}
