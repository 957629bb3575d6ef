//! Files and functions that fit into a head.

use crate::{exceptions, files};

const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;

#[test]
fn files_and_functions_are_short() {
    let mut findings = Vec::new();
    for file in files::rust() {
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            findings.push((file.path.clone(), format!("{lines} lines, at most {FILE_LINES_MAX}")));
        }
        for (line, name, lines) in functions(&file.text) {
            if lines > FUNCTION_LINES_MAX {
                let what = format!("{name} has {lines} lines, at most {FUNCTION_LINES_MAX}");
                findings.push((format!("{}:{line}", file.path), what));
            }
        }
    }
    exceptions::check("too long", findings, exceptions::SIZES);
}

/// Line, name and length of each function. The code is formatted: a function ends where the brace stands
/// below its beginning.
fn functions(source: &str) -> Vec<(usize, &str, usize)> {
    let mut found = Vec::new();
    let lines: Vec<&str> = source.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = name(line.trim_start()) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        let end = format!("{indent}}}");
        let rest = lines[at..].iter();
        let body = rest.take_while(|line| **line != end && !is_end_of_declaration(line, indent));
        found.push((at + 1, name, body.count() + 1));
    }
    found
}

fn is_end_of_declaration(line: &str, indent: &str) -> bool {
    let is_there = line.strip_prefix(indent).is_some_and(|rest| !rest.starts_with(' '));
    is_there && (line.ends_with(';') || line.ends_with("{}") || line.ends_with(" }"))
}

fn name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let is_keyword = |word: &str| {
        ["pub", "async", "const", "unsafe", "default"].contains(&word) || word.starts_with("pub(")
    };
    let is_function = before.split_whitespace().all(is_keyword);
    let end = after.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    is_function.then(|| &after[..end])
}

#[test]
fn lengths_are_counted() {
    let source = "fn a() {\n    b();\n}\n\nimpl C {\n    pub(crate) async fn d(\n        &self,\n    ) {\n    }\n}\n";
    assert_eq!(functions(source), [(1, "a", 3), (6, "d", 4)]);
}
