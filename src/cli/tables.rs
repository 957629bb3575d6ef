//! The flag `--table`, which names outbox tables.

use crate::config::keys;
use clap::Args;

use super::help;

/// Not among the settings, which are flags of all commands: after `dead` and `replay`, `--table` is
/// a filter. Before the command it is always this flag.
#[derive(Args, Default)]
#[command(next_help_heading = "Settings")]
pub(super) struct Tables {
    #[arg(long, value_name = "SCHEMA.TABLE", help = help(&keys::POSTGRES_TABLES))]
    pub(super) table: Vec<String>,
}

impl Tables {
    /// What was typed after the command overrides what was typed before it.
    pub(super) fn or_those(self, after_command: Tables) -> Tables {
        if after_command.table.is_empty() { self } else { after_command }
    }
}
