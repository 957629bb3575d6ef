//! Variables of Debezium Server: an env file, or what `env` prints.

use super::Pair;
use crate::import::Fault;

const PREFIX: &str = "DEBEZIUM_";

/// Whether the line sets a variable of Debezium Server.
pub(super) fn is_debezium(line: &str) -> bool {
    assignment(line).is_some_and(|(name, _)| name.starts_with(PREFIX))
}

/// Debezium Server's variables. Others are left alone, as by Debezium Server.
pub(super) fn parse(text: &str) -> Result<Vec<Pair>, Vec<Fault>> {
    let mut pairs: Vec<Pair> = Vec::new();
    let mut faults = Vec::new();
    // Whether lines that set nothing may be the rest of a value that concerns nobody here.
    let mut is_others = false;
    for (at, line) in text.lines().enumerate() {
        let line_number = at + 1;
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        match assignment(line) {
            Some((name, value)) if name.starts_with(PREFIX) => {
                is_others = false;
                pairs.push(Pair {
                    name: name.replace('_', ".").to_lowercase(),
                    written: name.to_owned(),
                    line: line_number,
                    text: unquoted(value).to_owned(),
                });
            }
            Some(_) => is_others = true,
            None if is_others => {}
            None => faults.push(Fault::at(
                line_number,
                "this line sets no variable; write it as NAME=value, with the value on one line",
            )),
        }
    }
    if faults.is_empty() { Ok(pairs) } else { Err(faults) }
}

fn assignment(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=')?;
    let name = name.trim_start();
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name = !name.is_empty()
        && name.chars().all(is_part)
        && !name.starts_with(|c: char| c.is_ascii_digit());
    is_name.then_some((name, value))
}

/// Without the quotes that a shell or compose takes off.
fn unquoted(value: &str) -> &str {
    let value = value.trim();
    let inner = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    inner('"').or_else(|| inner('\'')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables() {
        let text = "# comment\nPATH=/bin\nBASH_FUNC_x%%=() {  echo\n}\n\nDEBEZIUM_SINK_TYPE=kafka\n\
                    export DEBEZIUM_SOURCE_DATABASE_HOSTNAME=\"db host\"\n\
                    DEBEZIUM_TRANSFORMS_OUTBOX_ROUTE_TOPIC_REGEX='(a)=b'\r\n_=/usr/bin/env\n";
        let pairs = parse(text).ok().unwrap();
        let pairs: Vec<_> =
            pairs.iter().map(|it| (it.name.as_str(), it.text.as_str(), it.line)).collect();
        assert_eq!(
            pairs,
            [
                ("debezium.sink.type", "kafka", 6),
                ("debezium.source.database.hostname", "db host", 7),
                ("debezium.transforms.outbox.route.topic.regex", "(a)=b", 8),
            ]
        );
    }

    #[test]
    fn lines_that_set_nothing_are_reported_together() {
        let faults = parse("hunter2\nDEBEZIUM_A=b\nhunter2\nX=y\nz").err().unwrap();
        assert_eq!(faults.iter().map(|fault| fault.line).collect::<Vec<_>>(), [Some(1), Some(3)]);
        assert!(faults.iter().all(|fault| !fault.message.contains("hunter2")));
    }
}
