//! Reads the examples of a page. `…` in what a page shows stands for any text.

use std::collections::BTreeMap;

/// What a page shows of one configuration.
#[derive(Debug, Default)]
pub(super) struct Example {
    /// Where it begins.
    pub(super) line: usize,
    pub(super) toml: String,
    pub(super) variables: Vec<(String, String)>,
    /// Statements that create tables, which come before `migrate`.
    pub(super) tables: Vec<String>,
    /// The other statements.
    pub(super) rows: Vec<String>,
    pub(super) records: Vec<RecordShown>,
    pub(super) parked: Vec<ParkedShown>,
    /// What the program prints in place of starting.
    pub(super) error: Option<String>,
}

/// A parked event: columns and their values.
pub(super) type ParkedShown = BTreeMap<String, String>;

/// A record as it is shown.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct RecordShown {
    pub(super) topic: String,
    /// A number, `murmur2(text)` or `any`.
    pub(super) partition: String,
    /// `NULL`: it has none.
    pub(super) key: String,
    pub(super) headers: Vec<(String, String)>,
    /// `NULL`: it has none.
    pub(super) value: String,
}

impl Example {
    fn has_result(&self) -> bool {
        !(self.records.is_empty() && self.parked.is_empty()) || self.error.is_some()
    }

    pub(super) fn topics(&self) -> Vec<&str> {
        let mut topics: Vec<&str> = self.records.iter().map(|it| it.topic.as_str()).collect();
        topics.sort_unstable();
        topics.dedup();
        topics
    }
}

/// All examples of a page. Configuration and SQL without a result is a mistake.
#[track_caller]
pub(super) fn examples(path: &str, text: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut is_open = false;
    for (line, language, block) in blocks(text) {
        // A sketch, which no test can run.
        if language.is_empty() {
            continue;
        }
        let is_input = matches!(language, "toml" | "sh" | "sql");
        let is_result = matches!(language, "record" | "parked" | "error");
        assert!(is_input || is_result, "{path}:{line}: a block of {language:?}");
        if is_input && (!is_open || examples.last().is_some_and(Example::has_result)) {
            examples.push(Example { line, ..Example::default() });
            is_open = true;
        }
        let example = examples.last_mut().unwrap_or_else(|| panic!("{path}:{line}: no input"));
        match language {
            "toml" => example.toml.push_str(block),
            "sh" => example.variables.extend(block.lines().map(variable)),
            "sql" => statements(block, example),
            "record" => example.records.extend(paragraphs(block).map(record)),
            "parked" => example.parked.extend(paragraphs(block).map(|it| it.into_iter().collect())),
            _ => example.error = Some(words(block)),
        }
    }
    for example in &examples {
        assert!(example.has_result(), "{path}:{}: an example without a result", example.line);
    }
    examples
}

/// Line, language and content of each fenced block.
fn blocks(text: &str) -> Vec<(usize, &str, &str)> {
    let mut blocks = Vec::new();
    let mut line = 1;
    let mut parts = text.split("```");
    while let (Some(before), Some(block)) = (parts.next(), parts.next()) {
        line += before.matches('\n').count();
        let (language, content) = block.split_once('\n').expect("a block on one line");
        blocks.push((line, language, content));
        line += block.matches('\n').count();
    }
    blocks
}

/// `export NAME='value'`
fn variable(line: &str) -> (String, String) {
    let (name, value) = line.strip_prefix("export ").and_then(|it| it.split_once('=')).expect(line);
    (name.to_owned(), value.trim_matches('\'').to_owned())
}

fn statements(block: &str, example: &mut Example) {
    for statement in block.split_inclusive(";\n").filter(|it| !it.trim().is_empty()) {
        let is_table = statement.trim_start().starts_with("CREATE");
        let list = if is_table { &mut example.tables } else { &mut example.rows };
        list.push(statement.to_owned());
    }
}

/// Names and values, of one record each. An indented line continues the one before.
fn paragraphs(block: &str) -> impl Iterator<Item = Vec<(String, String)>> {
    block.split("\n\n").map(|paragraph| {
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in paragraph.lines() {
            match (line.starts_with(' '), fields.last_mut()) {
                (true, Some((_, value))) => value.push_str(line.trim_start()),
                _ => {
                    let (name, value) = line.split_once(' ').expect(line);
                    fields.push((name.to_owned(), value.trim_start().to_owned()));
                }
            }
        }
        fields
    })
}

fn record(fields: Vec<(String, String)>) -> RecordShown {
    let mut record = RecordShown::default();
    for (name, value) in fields {
        match name.as_str() {
            "topic" => record.topic = value,
            "partition" => record.partition = value,
            "key" => record.key = value,
            "value" => record.value = value,
            "header" => {
                let (name, value) = value.split_once(": ").unwrap_or((&value, ""));
                record.headers.push((name.trim_end_matches(':').to_owned(), value.to_owned()));
            }
            other => panic!("a record has no {other}"),
        }
    }
    let parts = [&record.topic, &record.partition, &record.key, &record.value];
    assert!(parts.iter().all(|part| !part.is_empty()), "{record:?} lacks something");
    record
}

/// The text with one space between words.
pub(super) fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a text is what a page shows.
pub(super) fn matches(shown: &str, text: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut ends = rest.is_empty();
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = if part.is_empty() { "" } else { after };
        ends = rest.is_empty();
    }
    ends
}

#[test]
fn any_text_stands_for_itself_or_is_left_out() {
    for (shown, text, expect) in [
        ("abc", "abc", true),
        ("abc", "abcd", false),
        ("a…c", "abbc", true),
        ("a…c", "abcd", false),
        ("…", "anything", true),
        ("a…", "abc", true),
        ("", "", true),
    ] {
        assert_eq!(matches(shown, text), expect, "{shown} {text}");
    }
}
