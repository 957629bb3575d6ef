//! JSON, with the lines of its values.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::tree::{DEPTH_MAX, Node, Tree};
use crate::import::Fault;

pub(super) fn parse(text: &str) -> Result<Tree, Fault> {
    let raw: &RawValue = serde_json::from_str(text).map_err(|error| not_json(&error))?;
    tree(raw, text, 0)
}

fn not_json(error: &serde_json::Error) -> Fault {
    // The message has no part of the text: serde_json names only what it expected.
    let message = error.to_string();
    let message = message.rsplit_once(" at line").map_or(message.as_str(), |(start, _)| start);
    Fault::at(error.line().max(1), format!("not JSON: {message}"))
}

fn tree(raw: &RawValue, text: &str, depth: usize) -> Result<Tree, Fault> {
    let line = line(raw, text);
    if depth > DEPTH_MAX {
        return Err(Fault::at(line, "this is nested too deeply to be a connector's configuration"));
    }
    let within = |raw: &RawValue| tree(raw, text, depth + 1);
    let node = match raw.get().chars().next() {
        Some('{') => {
            let members: BTreeMap<String, &RawValue> = read(raw)?;
            let members = members.into_iter().map(|(name, raw)| Ok((name, within(raw)?)));
            Node::Map(members.collect::<Result<_, Fault>>()?)
        }
        Some('[') => {
            let items: Vec<&RawValue> = read(raw)?;
            Node::List(items.into_iter().map(within).collect::<Result<_, Fault>>()?)
        }
        Some('"') => Node::Text(read(raw)?),
        Some('n') => Node::Null,
        _ => Node::Text(raw.get().to_owned()),
    };
    Ok(Tree { line, node })
}

fn read<'a, T: serde::Deserialize<'a>>(raw: &'a RawValue) -> Result<T, Fault> {
    serde_json::from_str(raw.get()).map_err(|error| not_json(&error))
}

/// A raw value is a part of the text that it was read from.
fn line(raw: &RawValue, text: &str) -> usize {
    let start = raw.get().as_ptr().addr().saturating_sub(text.as_ptr().addr());
    1 + text.bytes().take(start).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_lines() {
        let text = "{\n  \"a\": \"\\u00e9\\/\",\n\t\"b\": {\"c\": 1.50,\n \"d\": [true,\n null]}, \"a\":\n \"2\"}";
        let tree = parse(text).ok().unwrap();
        let at = |path: &[&str]| tree.path(path).map(|tree| (tree.line, tree.text()));
        assert_eq!(at(&["a"]), Some((6, Some("2"))));
        assert_eq!(at(&["b"]), Some((3, None)));
        assert_eq!(at(&["b", "c"]), Some((3, Some("1.50"))));
        let Node::List(items) = &tree.path(&["b", "d"]).unwrap().node else { panic!("no list") };
        assert_eq!((items[0].text(), items[1].line), (Some("true"), 5));
        assert!(matches!(items[1].node, Node::Null));
    }

    #[test]
    fn what_is_not_json() {
        #[track_caller]
        fn check(text: &str, line: usize, expect: &str) {
            let fault = parse(text).err().unwrap();
            assert_eq!(fault.line, Some(line), "{text}");
            assert!(fault.message.contains(expect), "{}", fault.message);
            assert!(!fault.message.contains("hunter2"), "{}", fault.message);
        }
        check("{\n\"password\": \"hunter2\n\"}", 2, "not JSON: control character");
        check("{\"password\": \"hunter2\",\n}", 2, "not JSON: ");
        check("{\"a\": hunter2}", 1, "not JSON: expected value");
        check("{}\n{}", 2, "not JSON: trailing characters");
        check("{", 1, "not JSON: EOF");
        check(&"[".repeat(40), 1, "not JSON");
        check(&format!("{}{}", "[".repeat(40), "]".repeat(40)), 1, "nested too deeply");
        check(&"[".repeat(200_000), 1, "not JSON");
        check("{\"a\": \"\\ud800\"}", 1, "not JSON");
    }
}
