//! The variables `POSTRIDER_…`. An unknown one is an error: otherwise a misspelled variable would
//! silently have no effect.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::Inputs;
use super::keys::{self, CONFIG_VARIABLE, Key, VARIABLE_PREFIX, ValueKind};
use super::parse;
use super::problem::{Origin, Problem};
use super::raw::{Layer, Typed};
use super::secrets;

const FILE_SUFFIX: &str = "_FILE";

/// librdkafka's own properties that end in `.file`: in these `_FILE` is part of the name.
const PROPERTIES_ENDING_IN_FILE: [&str; 3] = [
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.jwt.template.file",
];

/// A variable that can set something, whether or not it is set.
struct Variable {
    name: String,
    /// Its value is the path of a file that contains the setting's value.
    names_file: bool,
}

pub(super) fn read(inputs: &Inputs<'_>, problems: &mut Vec<Problem>) -> Layer {
    let mut layer = Layer::default();
    let mut known = BTreeSet::from([CONFIG_VARIABLE.to_owned()]);
    let by_variable = |key: &&Key| !key.is(ValueKind::Map) && !key.is(ValueKind::Sections);
    for key in keys::ALL.iter().copied().filter(by_variable) {
        let variables = with_files(key.variables());
        match only_one(inputs, &variables, problems) {
            Some(typed) if key.is(ValueKind::Pairs) => pairs(&mut layer, key, typed, problems),
            Some(typed) => layer.set(key, typed),
            None => {}
        }
        known.extend(variables.into_iter().map(|variable| variable.name));
    }
    for key in maps() {
        let prefix = map_prefix(key);
        for name in names_in_map(inputs, &prefix) {
            let variable = format!("{prefix}{}", name.to_uppercase().replace('.', "_"));
            let variables = with_files(vec![variable]);
            if let Some(typed) = only_one(inputs, &variables, problems) {
                layer.set_in_map(key, name, typed);
            }
            known.extend(variables.into_iter().map(|variable| variable.name));
        }
    }
    let ours = inputs.variables.keys().filter(|name| name.starts_with(VARIABLE_PREFIX));
    problems.extend(ours.filter(|name| !known.contains(*name)).map(|name| unknown(name, &known)));
    layer
}

/// Each pair keeps the variable that it came from.
fn pairs(layer: &mut Layer, key: &'static Key, typed: Typed, problems: &mut Vec<Problem>) {
    let Typed { text, origin } = typed;
    match parse::pairs(key, &text) {
        Ok(pairs) => layer.pairs.entry(key.path()).or_default().extend(
            pairs.into_iter().map(|(name, text)| (name, Typed { text, origin: origin.clone() })),
        ),
        Err(reason) => {
            let message = format!("{}: {reason}", secrets::setting(key.path(), &text));
            problems.push(Problem::at(&origin, message));
        }
    }
}

fn with_files(names: Vec<String>) -> Vec<Variable> {
    let both = |name: String| {
        let file = Variable { name: format!("{name}{FILE_SUFFIX}"), names_file: true };
        [Variable { name, names_file: false }, file]
    };
    names.into_iter().flat_map(both).collect()
}

fn maps() -> impl Iterator<Item = &'static Key> {
    keys::ALL.iter().copied().filter(|key| key.is(ValueKind::Map))
}

/// What the variables of a section begin with: `POSTRIDER_KAFKA_PROPERTIES_`.
fn map_prefix(key: &Key) -> String {
    key.variables().into_iter().map(|name| format!("{name}_")).next().unwrap_or_default()
}

fn names_in_map(inputs: &Inputs<'_>, prefix: &str) -> BTreeSet<String> {
    let names = inputs.variables.keys().filter_map(|name| name.strip_prefix(prefix));
    names.filter(|rest| !rest.is_empty()).map(property_name).collect()
}

/// `SASL_PASSWORD` and `SASL_PASSWORD_FILE` are both `sasl.password`.
fn property_name(rest: &str) -> String {
    let dotted = |name: &str| name.to_lowercase().replace('_', ".");
    let whole = dotted(rest);
    match rest.strip_suffix(FILE_SUFFIX) {
        Some(name) if !PROPERTIES_ENDING_IN_FILE.contains(&whole.as_str()) => dotted(name),
        _ => whole,
    }
}

/// The value of the one variable that is set. If two are set, it is not clear which should win, so
/// that is an error.
fn only_one(
    inputs: &Inputs<'_>,
    variables: &[Variable],
    problems: &mut Vec<Problem>,
) -> Option<Typed> {
    let set: Vec<(&Variable, &str)> = variables
        .iter()
        .filter_map(|variable| Some((variable, inputs.variable(&variable.name)?)))
        .collect();
    match set.as_slice() {
        [] => None,
        [(variable, value)] => value_of(inputs, variable, value, problems),
        [(first, _), rest @ ..] => {
            let others: Vec<&str> = rest.iter().map(|(other, _)| other.name.as_str()).collect();
            let message = format!("sets the same thing as {}; keep one", others.join(" and "));
            problems.push(Problem::in_variable(&first.name, message));
            None
        }
    }
}

fn value_of(
    inputs: &Inputs<'_>,
    variable: &Variable,
    value: &str,
    problems: &mut Vec<Problem>,
) -> Option<Typed> {
    let name = variable.name.clone();
    if !variable.names_file {
        return Some(Typed { text: value.to_owned(), origin: Origin::Variable(name) });
    }
    let path = PathBuf::from(value);
    match (inputs.read)(&path) {
        Ok(text) => {
            // Editors and `echo` end a file with a newline, which is not part of the password.
            let line = text.strip_suffix('\n').unwrap_or(&text);
            let text = line.strip_suffix('\r').unwrap_or(line).to_owned();
            Some(Typed { text, origin: Origin::VariableFile { variable: name, path } })
        }
        Err(error) => {
            // The value is not repeated: it may be the secret itself instead of a file's name.
            let message = format!(
                "can't read the file that it names: {error}; it takes the path of a file that \
                 contains the value"
            );
            problems.push(Problem::in_variable(&name, message));
            None
        }
    }
}

fn unknown(name: &str, known: &BTreeSet<String>) -> Problem {
    let map = maps().find(|key| name.starts_with(map_prefix(key).trim_end_matches('_')));
    let message = if let Some(key) = map {
        let example = if key.path() == "debezium" { "PROFILE" } else { "SASL_PASSWORD" };
        let (path, prefix) = (key.path(), map_prefix(key));
        format!("{path} has one variable per property, such as {prefix}{example}")
    } else {
        match keys::nearest(name, known.iter().cloned()) {
            Some(near) => format!("unknown variable; did you mean {near}?"),
            None => "unknown variable; unset it".to_owned(),
        }
    };
    Problem::in_variable(name, message)
}
