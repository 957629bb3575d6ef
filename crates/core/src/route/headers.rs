//! Which headers a record has: the default ones, and those of the configuration.

use super::Template;
use crate::row::{ColumnNames, ColumnRef, Source};

/// A header that records have without any configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultHeader {
    /// The row's id.
    Id,
    /// What consumers dedupe on.
    IdempotencyKey,
    /// The event's type.
    Type,
    /// How the value is encoded.
    ContentType,
    /// Whose event it is.
    Tenant,
    /// W3C trace context.
    Traceparent,
    /// The time of the commit, if the record's timestamp had to differ.
    CommittedAt,
}

impl DefaultHeader {
    /// In the order in which records have them.
    pub const ALL: [Self; 7] = [
        Self::Id,
        Self::IdempotencyKey,
        Self::Type,
        Self::ContentType,
        Self::Tenant,
        Self::Traceparent,
        Self::CommittedAt,
    ];

    /// Its name in the record.
    pub fn name(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::IdempotencyKey => "idempotency-key",
            Self::Type => "type",
            Self::ContentType => "content-type",
            Self::Tenant => "tenant",
            Self::Traceparent => "traceparent",
            Self::CommittedAt => "committed-at",
        }
    }
}

/// A header of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderRule<C = Source> {
    /// The header's name.
    pub name: String,
    /// Its value; none: records don't have this default header.
    pub value: Option<Template<C>>,
}

/// The headers of one table's records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderRules {
    /// By [`DefaultHeader`].
    defaults: [bool; DefaultHeader::ALL.len()],
    placed: Vec<(String, Template)>,
}

impl Default for HeaderRules {
    fn default() -> Self {
        HeaderRules { defaults: [true; DefaultHeader::ALL.len()], placed: Vec::new() }
    }
}

impl HeaderRules {
    /// The default headers, if they are wanted, and these. One with the name of a default header
    /// replaces it. `setting` and the error are as in [`Template::resolve`]; rules that are only
    /// defaults, and need a column that the table does not have, are left out.
    pub fn resolve(
        defaults: bool,
        rules: &[HeaderRule<ColumnRef>],
        names: &mut ColumnNames,
        setting: Option<&str>,
    ) -> Result<Self, String> {
        let is_replaced =
            |header: DefaultHeader| rules.iter().any(|rule| rule.name == header.name());
        let mut placed = Vec::new();
        for HeaderRule { name, value } in rules {
            if let Some(value) = value {
                let setting = setting.map(|setting| format!("{setting}.{name}"));
                match value.resolve(names, setting.as_deref()) {
                    Ok(value) => placed.push((name.clone(), value)),
                    Err(_) if setting.is_none() => {}
                    Err(column) => return Err(column),
                }
            }
        }
        let defaults = DefaultHeader::ALL.map(|header| defaults && !is_replaced(header));
        Ok(HeaderRules { defaults, placed })
    }

    /// Whether records have this default header.
    pub fn has(&self, header: DefaultHeader) -> bool {
        self.defaults.get(header as usize).copied().unwrap_or_default()
    }

    /// The headers of the configuration.
    pub fn placed(&self) -> &[(String, Template)] {
        &self.placed
    }
}
