//! The filters of `postrider dead` and `postrider replay`.

use std::time::SystemTime;

use crate::config::{TableName, TableNameError};
use crate::parking::filter::{Filter, parse_time};
use clap::Args;
use postrider_core::row::MESSAGES;

/// Which events of the side table are selected.
#[derive(Args)]
#[command(next_help_heading = "Filters")]
pub(super) struct Filters {
    /// Events of this topic
    #[arg(long)]
    topic: Option<String>,
    /// Events from this outbox table, or `messages` for events without a table
    #[arg(long, value_name = "SCHEMA.TABLE", value_parser = source)]
    table: Option<String>,
    /// Events of this tenant
    #[arg(long)]
    tenant: Option<String>,
    /// Events with this ordering key
    #[arg(long)]
    key: Option<String>,
    /// Events that were parked for this reason, such as topic-missing
    #[arg(long)]
    reason: Option<String>,
    /// Events parked since this time: as in 2030-01-31T08:00:00Z, or how long ago, as in 2h
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<SystemTime>,
    /// Events parked until this time, written as with --since
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<SystemTime>,
    /// At most this many events, the first ones
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

impl Filters {
    pub(super) fn into_filter(self) -> Filter {
        Filter {
            topic: self.topic,
            source_table: self.table,
            tenant: self.tenant,
            ordering_key: self.key,
            reason: self.reason,
            since: self.since,
            until: self.until,
            ids: None,
            limit: self.limit,
        }
    }
}

/// As it is stored in the side table. A table called messages must be named with its schema.
fn source(text: &str) -> Result<String, TableNameError> {
    match text {
        MESSAGES => Ok(text.to_owned()),
        _ => text.parse::<TableName>().map(|table| table.to_string()),
    }
}

fn time(text: &str) -> Result<SystemTime, String> {
    parse_time(text, SystemTime::now())
}

/// The same filters for commands that require a selection.
#[derive(Args)]
pub(super) struct Selection {
    #[command(flatten)]
    filters: Filters,
    /// The event with this id in the side table; several by repeating the flag or with commas
    #[arg(long, value_name = "N", value_delimiter = ',', help_heading = "Filters")]
    id: Vec<i64>,
    /// All dead events (can be combined with filters)
    #[arg(long, help_heading = "Filters")]
    all: bool,
}

impl Selection {
    /// `None`: nothing is selected.
    pub(super) fn into_filter(self) -> Option<Filter> {
        let mut filter = self.filters.into_filter();
        filter.ids = Some(self.id).filter(|ids| !ids.is_empty());
        (self.all || filter.is_selective()).then_some(filter)
    }
}

/// The fix if nothing is selected.
pub(super) const SELECT: &str = "name them by --id, select them with a filter (--topic, --table, \
    --tenant, --key, --reason, --since, --until), or use --all";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::{Cli, Command, dead};
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    fn replayed(line: &str) -> Option<Filter> {
        match parse(line).ok()?.command {
            Command::Replay(replay) => replay.selection.into_filter(),
            _ => None,
        }
    }

    #[test]
    fn filters_are_what_was_typed() {
        let filter = replayed(
            "postrider replay --topic t --table Orders.\"Out\" --tenant x --key k --reason refused \
             --since 2030-01-31T08:00:00Z --limit 5 --id 1,2 --id 3",
        );
        let filter = filter.unwrap();
        assert_eq!(filter.topic.as_deref(), Some("t"));
        assert_eq!(filter.source_table.as_deref(), Some("orders.\"Out\""));
        assert_eq!(filter.tenant.as_deref(), Some("x"));
        assert_eq!(filter.ordering_key.as_deref(), Some("k"));
        assert_eq!(filter.reason.as_deref(), Some("refused"));
        assert!(filter.since.is_some() && filter.until.is_none());
        assert_eq!((filter.limit, filter.ids), (Some(5), Some(vec![1, 2, 3])));
    }

    #[test]
    fn messages_are_not_a_table() {
        let table = |line: &str| replayed(line).unwrap().source_table.unwrap();
        assert_eq!(table("postrider replay --table messages"), "messages");
        assert_eq!(table("postrider replay --table public.messages"), "public.messages");
    }

    #[test]
    fn all_must_be_asked_for() {
        assert_eq!(replayed("postrider replay"), None);
        assert_eq!(replayed("postrider replay --limit 3"), None);
        assert_eq!(replayed("postrider replay --all"), Some(Filter::default()));
        assert!(replayed("postrider replay --since 2h").is_some());
        for wrong in ["--since tomorrow", "--limit -1", "--id x", "--table a.b.c", "--rate 0"] {
            assert!(parse(&format!("postrider replay --all {wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn after_dead_and_replay_a_table_is_a_filter_and_before_them_a_setting() {
        let mut cli = parse("postrider --table a replay --table b").ok().unwrap();
        assert_eq!(cli.tables.or_those(cli.command.tables()).table, ["a"]);
        let Command::Replay(replay) = cli.command else { panic!("another command") };
        assert_eq!(replay.selection.into_filter().unwrap().source_table.unwrap(), "public.b");

        let mut cli = parse("postrider dead list --table b --slot s").ok().unwrap();
        assert_eq!(cli.settings.slot.as_deref(), Some("s"));
        assert!(cli.tables.or_those(cli.command.tables()).table.is_empty());
        let Command::Dead(dead::Dead::List(list)) = cli.command else { panic!("another command") };
        assert_eq!(list.filters.into_filter().source_table.unwrap(), "public.b");

        let mut cli = parse("postrider --table a run --table b").ok().unwrap();
        assert_eq!(cli.tables.or_those(cli.command.tables()).table, ["b"]);
    }
}
