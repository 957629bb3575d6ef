//! YAML, with the lines of its values. Several documents may be in one file.

use yaml_rust2::Event;
use yaml_rust2::parser::Parser;
use yaml_rust2::scanner::TScalarStyle;

use super::tree::{DEPTH_MAX, Node, Tree};
use crate::import::Fault;

/// A list or a map that is not complete yet.
struct Open {
    line: usize,
    kind: Kind,
}

enum Kind {
    List(Vec<Tree>),
    /// The members, and the name of the one whose value comes next.
    Map(Vec<(String, Tree)>, Option<(String, usize)>),
}

/// The documents.
///
/// Their values are put together here, and not by the crate's loader: that one forgets the lines,
/// and calls itself for each level, so that a hostile file could exhaust the stack.
pub(super) fn parse(text: &str) -> Result<Vec<Tree>, Fault> {
    let mut parser = Parser::new_from_str(text);
    let mut documents = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    loop {
        // The message has no part of the text: the scanner names only what it expected.
        let (event, mark) = parser.next_token().map_err(|error| {
            Fault::at(error.marker().line().max(1), format!("not YAML: {}", error.info()))
        })?;
        let line = mark.line().max(1);
        let complete = match event {
            Event::StreamEnd => return Ok(documents),
            Event::Alias(_) => {
                let message = "import does not follow YAML aliases; write out what this one means";
                return Err(Fault::at(line, message));
            }
            Event::Scalar(text, style, ..) => Tree { line, node: scalar(text, style) },
            Event::SequenceStart(..) => {
                open.push(Open { line, kind: Kind::List(Vec::new()) });
                if open.len() > DEPTH_MAX {
                    return Err(too_deep(line));
                }
                continue;
            }
            Event::MappingStart(..) => {
                open.push(Open { line, kind: Kind::Map(Vec::new(), None) });
                if open.len() > DEPTH_MAX {
                    return Err(too_deep(line));
                }
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open { line, kind: Kind::List(items) }) => {
                    Tree { line, node: Node::List(items) }
                }
                Some(Open { line, kind: Kind::Map(members, _) }) => {
                    Tree { line, node: Node::Map(members) }
                }
                None => continue,
            },
            Event::Nothing | Event::StreamStart | Event::DocumentStart | Event::DocumentEnd => {
                continue;
            }
        };
        match open.last_mut() {
            Some(outer) => put(complete, outer)?,
            None => documents.push(complete),
        }
    }
}

fn too_deep(line: usize) -> Fault {
    Fault::at(line, "this is nested too deeply to be a connector's configuration")
}

/// A value into the list or map around it.
fn put(tree: Tree, outer: &mut Open) -> Result<(), Fault> {
    match &mut outer.kind {
        Kind::List(items) => items.push(tree),
        Kind::Map(members, name) => match name.take() {
            Some((name, line)) => members.push((name, Tree { line, node: tree.node })),
            None => match tree.node {
                Node::Text(text) if text == "<<" => {
                    let message = "import does not merge YAML maps; write out what << adds";
                    return Err(Fault::at(tree.line, message));
                }
                Node::Text(text) => *name = Some((text, tree.line)),
                // The YAML of Quarkus: a name that has both a value and longer names below it.
                Node::Null => *name = Some(("~".to_owned(), tree.line)),
                Node::List(_) | Node::Map(_) => {
                    return Err(Fault::at(tree.line, "a name must be text, not a list or a map"));
                }
            },
        },
    }
    Ok(())
}

fn scalar(text: String, style: TScalarStyle) -> Node {
    let is_plain = style == TScalarStyle::Plain;
    match text.as_str() {
        "" | "~" | "null" | "Null" | "NULL" if is_plain => Node::Null,
        _ => Node::Text(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_lines() {
        let text = "# comment\na: 1\nb:\n  c: \"x # y\"\n  d: [true, ~]\n  e: |\n    two\n    lines\n---\na: ''\n~: 2\n";
        let documents = parse(text).ok().unwrap();
        let [first, second] = documents.as_slice() else { panic!("{}", documents.len()) };
        let at = |path: &[&str]| first.path(path).map(|tree| (tree.line, tree.text()));
        assert_eq!(at(&["a"]), Some((2, Some("1"))));
        assert_eq!(at(&["b"]), Some((3, None)));
        assert_eq!(at(&["b", "c"]), Some((4, Some("x # y"))));
        assert_eq!(at(&["b", "e"]), Some((6, Some("two\nlines\n"))));
        let Node::List(items) = &first.path(&["b", "d"]).unwrap().node else { panic!("no list") };
        assert_eq!(items[0].text(), Some("true"));
        assert!(matches!(items[1].node, Node::Null));
        assert_eq!(second.get("a").map(|tree| (tree.line, tree.text())), Some((10, Some(""))));
        assert_eq!(second.get("~").map(|tree| tree.line), Some(11));
    }

    #[test]
    fn what_is_not_yaml() {
        #[track_caller]
        fn check(text: &str, line: usize, expect: &str) {
            let fault = parse(text).err().unwrap();
            assert_eq!(fault.line, Some(line), "{text}: {}", fault.message);
            assert!(fault.message.contains(expect), "{}", fault.message);
            assert!(!fault.message.contains("hunter2"), "{}", fault.message);
        }
        check("a: b\n  password: hunter2\n", 2, "not YAML");
        check("a:\n  b: 'hunter2\n", 2, "not YAML");
        check("a: {{ .Values.hunter2 }}\n", 1, "a name must be text");
        check("a: &x 1\nb: *x\n", 2, "aliases");
        check("a: &x {c: 1}\nb:\n  <<: {c: 2}\n", 3, "does not merge");
        check("? [a]\n: b\n", 1, "a name must be text");
        check(&"[".repeat(100_000), 1, "");
        check(&format!("a:\n{}", "- ".repeat(100_000)), 2, "nested too deeply");
    }
}
