//! Texts with columns in them: `outbox.event.{aggregatetype}`.
//!
//! `{column}` is the column's value as text; `{column|text}` is `text` where the value is NULL;
//! `{column:lower}` is in lower case, and `{column:lower|text}` both. `{{` and `}}` are braces.

use std::borrow::Cow;
use std::fmt;

use crate::row::{Column, ColumnFault, ColumnNames, ColumnRef, Row, RowFault, Source};

/// What a template can make of one event. Anything longer would be illegal wherever it is used.
const RENDERED_BYTES_MAX: usize = 256 * 1024;
/// What it usually makes of one: room for this much needs no second allocation.
const RENDERED_BYTES_USUAL: usize = 64;

/// A text, or the column, with its name, that is NULL and has no default. Only some callers make a
/// fault of that, which takes a copy of the name.
type Rendered<'a, 't> = Result<Cow<'a, str>, (Source, &'t str)>;

/// A text with columns in it. `C` is a [`ColumnRef`] as it was typed, and a [`Source`] once it is
/// known which table it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template<C = Source> {
    pieces: Vec<Piece<C>>,
}

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece<C> {
    /// Text that every event has.
    Literal(String),
    /// A column's value.
    Column {
        /// Which column.
        column: C,
        /// What the table calls it.
        name: String,
        /// In lower case.
        lower: bool,
        /// In place of NULL.
        default: Option<String>,
    },
}

/// What is wrong with a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A brace without its counterpart.
    #[error("a brace is not closed; write {{column}}, and {{{{ or }}}} for a brace itself")]
    Brace,
    /// Braces with nothing in them.
    #[error("{{}} names no column; write {{column}}")]
    NoColumn,
    /// A name that is neither an SQL identifier nor quoted.
    #[error("{0:?} is not a column's name; put one that is not a plain SQL name in double quotes")]
    Name(String),
    /// Something other than `lower` after the colon.
    #[error("{0:?} is unknown after a colon; only {{column:lower}} is possible")]
    Modifier(String),
}

impl Template<ColumnRef> {
    /// Reads a template as it was typed.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at_checked(at).ok_or(TemplateError::Brace)?;
            literal.push_str(before);
            if let Some(after) = from.strip_prefix("{{").or_else(|| from.strip_prefix("}}")) {
                literal.extend(from.chars().next());
                rest = after;
                continue;
            }
            let inner = from.strip_prefix('{').ok_or(TemplateError::Brace)?;
            let (inner, after) = split_at_close(inner).ok_or(TemplateError::Brace)?;
            if !literal.is_empty() {
                pieces.push(Piece::Literal(std::mem::take(&mut literal)));
            }
            pieces.push(placeholder(inner)?);
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        Ok(Template { pieces })
    }

    /// The same for a table with these names. `setting` is where the template was typed; none if it
    /// is a default. An error is a column that the configuration says the table does not have.
    pub fn resolve(
        &self,
        names: &mut ColumnNames,
        setting: Option<&str>,
    ) -> Result<Template, String> {
        let mut resolve = |piece: &Piece<ColumnRef>| {
            let (column, lower, default) = match piece {
                Piece::Literal(text) => return Ok(Piece::Literal(text.clone())),
                Piece::Column { column, lower, default, .. } => (column, *lower, default.clone()),
            };
            let found = names.source(column, setting).ok_or_else(|| column.name.clone())?;
            let name = names.of_source(found).to_owned();
            Ok(Piece::Column { column: found, name, lower, default })
        };
        let pieces: Result<_, String> = self.pieces.iter().map(&mut resolve).collect();
        Ok(Template { pieces: pieces? })
    }
}

/// Up to the brace that closes a placeholder, and what follows it. A quoted name can contain one.
fn split_at_close(text: &str) -> Option<(&str, &str)> {
    let mut is_quoted = false;
    let close = text.char_indices().find(|(_, char)| {
        is_quoted ^= *char == '"';
        *char == '}' && !is_quoted
    });
    let (inner, after) = text.split_at_checked(close?.0)?;
    Some((inner, after.strip_prefix('}')?))
}

/// `name`, `name:lower`, `name|default`, `name:lower|default`; the name may be quoted.
fn placeholder(inner: &str) -> Result<Piece<ColumnRef>, TemplateError> {
    let (column, after) = column_name(inner.trim())?;
    let (modifier, default) = match after.split_once('|') {
        Some((modifier, default)) => (modifier, Some(default.to_owned())),
        None => (after, None),
    };
    let lower = match modifier.trim() {
        "" => false,
        ":lower" => true,
        other => return Err(TemplateError::Modifier(other.trim_start_matches(':').to_owned())),
    };
    let name = column.name.clone();
    Ok(Piece::Column { column, name, lower, default })
}

/// The name at the beginning, and what follows it.
fn column_name(text: &str) -> Result<(ColumnRef, &str), TemplateError> {
    if let Some(quoted) = text.strip_prefix('"') {
        let mut name = String::new();
        let mut rest = quoted;
        loop {
            let (part, after) = rest.split_once('"').ok_or(TemplateError::Brace)?;
            name.push_str(part);
            match after.strip_prefix('"') {
                Some(after) => {
                    name.push('"');
                    rest = after;
                }
                None if name.is_empty() => return Err(TemplateError::NoColumn),
                None => return Ok((ColumnRef { name, is_quoted: true }, after)),
            }
        }
    }
    let end = text.find([':', '|']).unwrap_or(text.len());
    let (name, after) = text.split_at_checked(end).unwrap_or((text, ""));
    Ok((ColumnRef::unquoted(name.trim())?, after))
}

impl ColumnRef {
    /// A name as it is typed in a list: plain, or in double quotes.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        match column_name(text.trim())? {
            (column, "") => Ok(column),
            _ => Err(TemplateError::Name(text.to_owned())),
        }
    }

    fn unquoted(name: &str) -> Result<Self, TemplateError> {
        let is_start = |char: char| char.is_alphabetic() || char == '_';
        let is_part = |char: char| is_start(char) || char.is_ascii_digit() || char == '$';
        if name.is_empty() {
            return Err(TemplateError::NoColumn);
        }
        if !name.starts_with(is_start) || !name.chars().all(is_part) {
            return Err(TemplateError::Name(name.to_owned()));
        }
        Ok(ColumnRef { name: name.to_ascii_lowercase(), is_quoted: false })
    }
}

impl<C> Template<C> {
    /// The text, if there is no column in it.
    pub fn constant(&self) -> Option<Cow<'_, str>> {
        match self.pieces.as_slice() {
            [] => Some(Cow::Borrowed("")),
            [Piece::Literal(text)] => Some(Cow::Borrowed(text)),
            _ => None,
        }
    }

    /// Its columns.
    pub fn columns(&self) -> impl Iterator<Item = &C> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Literal(_) => None,
            Piece::Column { column, .. } => Some(column),
        })
    }
}

impl Template {
    /// Only this column.
    pub fn of_column(column: Column) -> Self {
        let name = column.name().to_owned();
        let column = Source::Ours(column);
        Template { pieces: vec![Piece::Column { column, name, lower: false, default: None }] }
    }

    /// The text for a row. An error is a column that is NULL and has no default, or can't be read.
    pub fn render<'a>(&self, row: &Row<'a>) -> Result<Cow<'a, str>, RowFault> {
        self.rendered(row)?.map_err(|(column, name)| null(row, column, name))
    }

    /// The same; none if one of the columns is NULL and has no default.
    pub fn render_unless_null<'a>(&self, row: &Row<'a>) -> Result<Option<Cow<'a, str>>, RowFault> {
        Ok(self.rendered(row)?.ok())
    }

    fn rendered<'a, 't>(&'t self, row: &Row<'a>) -> Result<Rendered<'a, 't>, RowFault> {
        if let [Piece::Column { column, name, lower: false, default: None }] =
            self.pieces.as_slice()
        {
            return Ok(row.text_of(*column, name)?.ok_or((*column, name)));
        }
        let mut rendered = String::with_capacity(RENDERED_BYTES_USUAL);
        for piece in &self.pieces {
            match piece {
                Piece::Literal(text) => rendered.push_str(text),
                Piece::Column { column, name, lower, default } => {
                    match (row.text_of(*column, name)?, default) {
                        (Some(text), _) if *lower => rendered.push_str(&text.to_lowercase()),
                        (Some(text), _) => rendered.push_str(&text),
                        (None, Some(default)) => rendered.push_str(default),
                        (None, None) => return Ok(Err((*column, name))),
                    }
                }
            }
            if rendered.len() > RENDERED_BYTES_MAX {
                return Err(RowFault::TextTooLong { limit: RENDERED_BYTES_MAX });
            }
        }
        Ok(Ok(Cow::Owned(rendered)))
    }
}

fn null(row: &Row<'_>, source: Source, name: &str) -> RowFault {
    let is_absent = !row.has(source);
    match source {
        Source::Ours(column) if is_absent => RowFault::Absent(column),
        Source::Ours(column) => RowFault::Null(column),
        Source::Other(_) => {
            let fault = if is_absent { ColumnFault::Absent } else { ColumnFault::Null };
            RowFault::Other { column: name.to_owned(), fault }
        }
    }
}

/// As it can be typed again.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in &self.pieces {
            match piece {
                Piece::Literal(text) => {
                    f.write_str(&text.replace('{', "{{").replace('}', "}}"))?;
                }
                Piece::Column { name, lower, default, .. } => {
                    write!(f, "{{\"{}\"", name.replace('"', "\"\""))?;
                    if *lower {
                        f.write_str(":lower")?;
                    }
                    if let Some(default) = default {
                        write!(f, "|{default}")?;
                    }
                    f.write_str("}")?;
                }
            }
        }
        Ok(())
    }
}
