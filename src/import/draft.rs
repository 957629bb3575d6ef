//! The new configuration, while it is written.

use toml::Value;

use super::finding::{Finding, Kind};
use super::setting::{Setting, one_line};

/// As in the repository's own files.
const COLUMNS_MAX: usize = 100;

/// The TOML, and what is different.
#[derive(Default)]
pub(super) struct Draft {
    text: String,
    /// A section that has no line yet.
    section: Option<&'static str>,
    findings: Vec<Finding>,
}

impl Draft {
    /// The next section; it is left out if nothing follows.
    pub(super) fn section(&mut self, name: &'static str) {
        self.section = Some(name);
    }

    /// A comment on lines of its own.
    pub(super) fn comment(&mut self, text: &str) {
        self.begin();
        let mut line = "#".to_owned();
        for word in one_line(text).split_whitespace() {
            if line.chars().count() + 1 + word.chars().count() > COLUMNS_MAX {
                self.line(&line);
                "#".clone_into(&mut line);
            }
            line.push(' ');
            line.push_str(word);
        }
        self.line(&line);
    }

    /// A key with its value, and where that is from.
    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>, why: &str) {
        self.begin();
        let line = format!("{} = {}", key_text(key), value.into());
        let comment = one_line(why);
        let width = line.lines().last().map_or(0, |last| last.chars().count());
        if width + 4 + comment.chars().count() <= COLUMNS_MAX {
            self.line(&format!("{line}  # {comment}"));
        } else {
            self.comment(&comment);
            self.line(&line);
        }
    }

    /// The same for an option that was copied.
    pub(super) fn copy(&mut self, key: &str, value: impl Into<Value>, from: &Setting) {
        self.set(key, value, &format!("from {}", from.place()));
    }

    /// A key whose value people must write. postrider does not start before that, because no key
    /// takes an empty list.
    pub(super) fn fill_in(&mut self, key: &str, why: &str) {
        self.set(key, Value::Array(Vec::new()), &format!("fill in: {why}"));
    }

    /// Something that is different.
    pub(super) fn find(&mut self, kind: Kind, what: &str, meaning: &str) {
        let text = format!("{}: {}", one_line(what), one_line(meaning));
        let finding = Finding { kind, text };
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    /// The TOML, and the findings in the order of their importance.
    pub(super) fn finish(self) -> (String, Vec<Finding>) {
        let mut findings = self.findings;
        findings.sort_by_key(|finding| finding.kind);
        (self.text, findings)
    }

    fn begin(&mut self) {
        if let Some(name) = self.section.take() {
            if !self.text.is_empty() {
                self.line("");
            }
            self.line(&format!("[{name}]"));
        }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }
}

fn key_text(key: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.chars().all(is_bare) {
        key.to_owned()
    } else {
        Value::String(key.to_owned()).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_can_be_read_again() {
        let mut draft = Draft::default();
        draft.comment(&"words ".repeat(40));
        draft.section("empty");
        draft.section("a");
        let values = ["plain", r"(?<x>.*)\.y", "say \"hi\"", "it's", "two\nlines", "'''", "\u{1}é"];
        for (at, value) in values.iter().enumerate() {
            draft.set(&format!("key.{at}"), *value, "from x, line 1");
        }
        draft.set("b-c", true, "a\nb = 1");
        draft.set("long", "v", &"why ".repeat(30));
        draft.fill_in("list", "what");
        let (text, _) = draft.finish();
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS_MAX), "{text}");
        assert!(!text.contains("[empty]"), "{text}");
        let table: toml::Table = text.parse().unwrap();
        assert_eq!(table.keys().collect::<Vec<_>>(), ["a"]);
        for (at, value) in values.iter().enumerate() {
            assert_eq!(table["a"][&format!("key.{at}")].as_str(), Some(*value));
        }
        assert_eq!(table["a"]["b-c"].as_bool(), Some(true));
        assert_eq!(table["a"]["list"].as_array().map(Vec::len), Some(0));
        assert_eq!(table["a"].as_table().map(toml::Table::len), Some(values.len() + 3));
    }

    #[test]
    fn consumers_come_first() {
        let mut draft = Draft::default();
        draft.find(Kind::Operators, "a", "b");
        draft.find(Kind::FillIn, "c", "d");
        draft.find(Kind::Consumers, "e\n", "f");
        let lines: Vec<_> = draft.finish().1.iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["consumers: e\u{fffd}: f", "fill in: c: d", "operators: a: b"]);
    }
}
