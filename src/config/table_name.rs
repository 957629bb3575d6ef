//! The name of a table, as SQL reads it.

use std::fmt;
use std::str::FromStr;

/// Postgres silently truncates longer names (NAMEDATALEN - 1).
pub(super) const NAME_BYTES_MAX: usize = 63;

/// A table with its schema.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableName {
    /// `public` if none was typed.
    pub schema: String,
    /// The table's own name.
    pub name: String,
}

impl TableName {
    /// The name for SQL: always quoted, so that no name can be read as a keyword or as syntax.
    pub fn quoted(&self) -> String {
        format!("{}.{}", quote_identifier(&self.schema), quote_identifier(&self.name))
    }
}

/// An identifier for SQL, in quotes.
pub(crate) fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Quotes only names that could not be read back without quotes.
impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let readable = |name: &str| {
            if folds_to_itself(name) { name.to_owned() } else { quote_identifier(name) }
        };
        write!(f, "{}.{}", readable(&self.schema), readable(&self.name))
    }
}

fn folds_to_itself(name: &str) -> bool {
    is_plain(name) && !name.contains(|c: char| c.is_ascii_uppercase())
}

fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$'))
}

/// Why a text is not a table name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableNameError {
    /// Nothing, or nothing on one side of the dot.
    #[error("a table or schema name is missing; write schema.table")]
    Empty,
    /// A quote that is not closed.
    #[error("a quote is not closed; write \"schema\".\"table\", and \"\" for a quote inside")]
    OpenQuote,
    /// A character that is allowed only in quotes.
    #[error("letters, digits, _ and $ need no quotes; put other names in quotes: \"Odd name\"")]
    NeedsQuotes,
    /// `a.b.c`.
    #[error("too many dots; write schema.table, the database is in postgres.url")]
    TooManyParts,
    /// Postgres would truncate it.
    #[error("a name has more than {NAME_BYTES_MAX} bytes, Postgres's limit; use a shorter name")]
    TooLong,
}

impl FromStr for TableName {
    type Err = TableNameError;

    fn from_str(text: &str) -> Result<Self, TableNameError> {
        let parts: Vec<&str> = split_unquoted(text.trim(), '.').collect();
        let (schema, name) = match parts.as_slice() {
            [name] => ("public".to_owned(), identifier(name)?),
            [schema, name] => (identifier(schema)?, identifier(name)?),
            _ => return Err(TableNameError::TooManyParts),
        };
        Ok(Self { schema, name })
    }
}

/// What an identifier means in SQL: without quotes it is folded to lower case.
pub(super) fn identifier(text: &str) -> Result<String, TableNameError> {
    let name = match text.strip_prefix('"') {
        Some(rest) => {
            let inner = rest.strip_suffix('"').ok_or(TableNameError::OpenQuote)?;
            if inner.replace("\"\"", "").contains('"') {
                return Err(TableNameError::OpenQuote);
            }
            inner.replace("\"\"", "\"")
        }
        None if text.is_empty() || is_plain(text) => text.to_ascii_lowercase(),
        None => return Err(TableNameError::NeedsQuotes),
    };
    match name.len() {
        0 => Err(TableNameError::Empty),
        1..=NAME_BYTES_MAX => Ok(name),
        _ => Err(TableNameError::TooLong),
    }
}

/// Splits at each `separator` outside quotes.
pub(super) fn split_unquoted(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |c| {
        quoted ^= c == '"';
        c == separator && !quoted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_as_sql_reads_them() {
        #[track_caller]
        fn check(text: &str, expect: Result<(&str, &str), TableNameError>) {
            let table = text.parse::<TableName>();
            let parts = table.as_ref().map(|t| (t.schema.as_str(), t.name.as_str()));
            assert_eq!(parts.map_err(|error| *error), expect, "{text}");
            if let Ok(table) = &table {
                assert_eq!(table.to_string().parse().as_ref(), Ok(table), "display of {text}");
                assert_eq!(table.quoted().parse().as_ref(), Ok(table), "quoted {text}");
            }
        }
        use TableNameError::{Empty, NeedsQuotes, OpenQuote, TooLong, TooManyParts};
        check("outbox", Ok(("public", "outbox")));
        check("orders.outbox", Ok(("orders", "outbox")));
        check(" orders.outbox ", Ok(("orders", "outbox")));
        check("Orders.OutBox", Ok(("orders", "outbox")));
        check(r#""Odd"."Name""#, Ok(("Odd", "Name")));
        check(r#"orders."a.b,c""#, Ok(("orders", "a.b,c")));
        check(r#""say ""hi""""#, Ok(("public", r#"say "hi""#)));
        check("größe.ärger", Ok(("größe", "ärger")));
        check("", Err(Empty));
        check("orders.", Err(Empty));
        check(".outbox", Err(Empty));
        check(r#""""#, Err(Empty));
        check("db.orders.outbox", Err(TooManyParts));
        check("orders.out-box", Err(NeedsQuotes));
        check("1st", Err(NeedsQuotes));
        check("a b", Err(NeedsQuotes));
        check(r#"a"b"#, Err(NeedsQuotes));
        check(r#""open"#, Err(OpenQuote));
        check(r#"""#, Err(OpenQuote));
        check(r#""a"b""#, Err(OpenQuote));
        check(&"a".repeat(63), Ok(("public", &"a".repeat(63))));
        check(&"a".repeat(64), Err(TooLong));
    }

    #[test]
    fn names_show_their_quotes_only_where_needed() {
        #[track_caller]
        fn check(text: &str, display: &str, quoted: &str) {
            let table: TableName = text.parse().unwrap();
            assert_eq!((table.to_string().as_str(), table.quoted().as_str()), (display, quoted));
        }
        check("Outbox", "public.outbox", r#""public"."outbox""#);
        check(r#""Odd".t"#, r#""Odd".t"#, r#""Odd"."t""#);
        check(r#""x"";drop""#, r#"public."x"";drop""#, r#""public"."x"";drop""#);
    }
}
