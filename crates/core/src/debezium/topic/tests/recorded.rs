//! Recorded by `Record.java`.

use super::*;

#[derive(serde::Deserialize)]
struct Recorded {
    regex: String,
    replacement: String,
    value: String,
    /// None if Java refuses the pattern or the replacement.
    topic: Option<String>,
}

#[test]
fn topics_are_those_of_java() {
    let recorded: Vec<Recorded> = serde_json::from_str(include_str!("topics.json")).unwrap();
    assert!(recorded.len() > 120, "{} records", recorded.len());
    let mut wrong = Vec::new();
    for Recorded { regex, replacement, value, topic } in recorded {
        let found = match TopicRouter::new(&regex, &replacement) {
            Ok(router) => Ok(router.topic(&value).into_owned()),
            Err(error) => Err(error.to_string()),
        };
        if found.as_ref().ok() != topic.as_ref() {
            wrong.push(format!("{regex:?} {replacement:?} {value:?}: {found:?}, Java {topic:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
