//! `postrider dead`

use std::io::{IsTerminal, Write, stderr, stdout};

use crate::config::Config;
use crate::parking::dead::{self, CommandError, EntryTable, NotShown, STATUSES};
use crate::parking::store::{Entry, TakeOver, hex};
use crate::plural::plural;
use clap::{Args, Subcommand};
use postrider_core::parking::Orphans;

use super::filters::{Filters, SELECT, Selection};
use super::{DONE, FAILED, OPERATOR, USAGE, no_runtime, print_error, print_line, runtime};

const LIST_LIMIT: u64 = 100;

#[derive(Subcommand)]
pub(super) enum Dead {
    /// List events in the side table, by default the dead ones
    List(List),
    /// Show everything about one event
    Show(Show),
    /// Discard dead events: they are never published, and events that wait for them are released
    Discard(Discard),
    /// Take over the events of a slot that no longer exists, so that they are retried
    TakeOver(TakeOverFlags),
}

#[derive(Args)]
pub(super) struct List {
    /// Comma-separated statuses
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "dead",
          value_parser = clap::builder::PossibleValuesParser::new(STATUSES))]
    status: Vec<String>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(super) filters: Filters,
}

#[derive(Args)]
pub(super) struct Show {
    /// The event's id in the side table
    #[arg(value_name = "ID")]
    id: i64,
    /// Show the payload too: as text if it is text, otherwise in hexadecimal
    #[arg(long)]
    payload: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(super) struct Discard {
    /// Discard them; without this flag, discard only counts the selected events
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    selection: Selection,
}

#[derive(Args)]
pub(super) struct TakeOverFlags {
    /// The slot that no longer exists
    #[arg(long, value_name = "SLOT")]
    from: String,
    /// Only count the events
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn dead(config: &Config, command: Dead) -> u8 {
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return no_runtime(&error),
    };
    let result = runtime.block_on(async {
        match command {
            Dead::List(flags) => list(config, flags).await,
            Dead::Show(flags) => show(config, &flags).await,
            Dead::Discard(flags) => discard(config, flags).await,
            Dead::TakeOver(flags) => take_over(config, &flags).await,
        }
    });
    result.unwrap_or_else(|error| failed(&error))
}

pub(super) fn failed(error: &CommandError) -> u8 {
    print_error(error, Some(&error.fix()));
    if error.needs_operator() { OPERATOR } else { FAILED }
}

async fn list(config: &Config, List { status, filters, json }: List) -> Result<u8, CommandError> {
    let mut filter = filters.into_filter();
    filter.limit = Some(filter.limit.unwrap_or(LIST_LIMIT));
    let mut table = EntryTable::new(width());
    let mut shown = 0;
    let more = dead::list(config, &status, &filter, |entries| {
        shown += entries.len();
        if json {
            entries.iter().for_each(|entry| print_line(&json_line(entry)));
        } else {
            print_line(table.page(entries).trim_end());
        }
    });
    let NotShown { more, orphans } = more.await?;
    for Orphans { slot, events } in orphans {
        // Not on standard output: these events were not asked for.
        let (belong, them) = if events == 1 { ("belongs", "it") } else { ("belong", "them") };
        print_note(&format!(
            "{} {belong} to slot {slot}, which no longer exists, so nobody retries {them}: run \
             `postrider dead take-over --from {slot}`",
            plural(events, "event"),
        ));
    }
    if json {
        return Ok(DONE);
    }
    match (shown, more) {
        (0, 0) => print_line(&format!("no {} events", status.join(" or "))),
        (_, 0) => {}
        (_, more) => {
            print_line(&format!("… and {more} more; raise --limit to show more, or use filters"))
        }
    }
    Ok(DONE)
}

async fn show(config: &Config, flags: &Show) -> Result<u8, CommandError> {
    let &Show { id, payload, json } = flags;
    let Some((entry, value)) = dead::show(config, id, payload).await? else {
        print_error(
            &format!("the side table has no event {id}"),
            Some("`postrider dead list` shows ids; finished events are deleted after a while"),
        );
        return Ok(FAILED);
    };
    if json {
        let mut object = serde_json::to_value(&entry).unwrap_or_default();
        if let (Some(fields), true) = (object.as_object_mut(), payload) {
            let (name, text) = match value.map(String::from_utf8) {
                Some(Ok(text)) => ("value", Some(text)),
                Some(Err(error)) => ("value_hex", Some(hex(error.as_bytes()))),
                None => ("value", None),
            };
            fields.insert(name.to_owned(), text.into());
        }
        print_line(&object.to_string());
        return Ok(DONE);
    }
    print_line(dead::details(&entry).trim_end());
    if payload {
        let text = value.as_deref().map(dead::payload_text);
        print_line(&format!("\n{}", text.as_deref().unwrap_or("(no value in the side table)")));
    }
    Ok(DONE)
}

async fn discard(config: &Config, flags: Discard) -> Result<u8, CommandError> {
    let Discard { selection, yes } = flags;
    let Some(filter) = selection.into_filter() else {
        print_error(&"no events selected", Some(SELECT));
        return Ok(USAGE);
    };
    if yes {
        let events = dead::discard(config, &filter).await?;
        print_line(&format!("discarded {}", plural(events, "dead event")));
        return Ok(DONE);
    }
    let events = dead::count_dead(config, &filter).await?;
    let they = if events == 1 { "it" } else { "they" };
    let events = plural(events, "dead event");
    print_line(&format!("would discard {events}: {they} would never be published"));
    print_error(
        &"nothing was discarded: confirmation is required",
        Some("check them with `postrider dead list`, then add --yes"),
    );
    Ok(USAGE)
}

async fn take_over(config: &Config, flags: &TakeOverFlags) -> Result<u8, CommandError> {
    let TakeOverFlags { from, dry_run } = flags;
    let slot = &config.postgres.slot;
    if from == slot {
        print_error(
            &format!("slot {slot} is the configured one: it has its events already"),
            Some(
                "name the slot that no longer exists with --from, and the slot that takes over its \
                events in postgres.slot",
            ),
        );
        return Ok(USAGE);
    }
    let (taken, has_job) = dead::take_over(config, from, *dry_run).await?;
    let events = match taken {
        TakeOver::Taken(0) => {
            print_error(
                &format!("slot {from} has no events waiting in the side table"),
                Some("`postrider dead list` names slots that no longer exist and have such events"),
            );
            return Ok(FAILED);
        }
        TakeOver::Taken(events) => plural(events, "event"),
        TakeOver::Exists => {
            print_error(
                &format!("slot {from} exists: its relay retries its events"),
                Some(
                    "start its relay; if that relay is not used any more, drop its slot first: \
                     SELECT pg_drop_replication_slot(…)",
                ),
            );
            return Ok(OPERATOR);
        }
        TakeOver::BeingCreated => {
            print_error(
                &format!("slot {from} is being recreated: its relay will retry its events"),
                Some(
                    "wait until the snapshot or recovery is done; to cancel it, stop its instance, \
                     and try again five minutes later",
                ),
            );
            return Ok(OPERATOR);
        }
        TakeOver::NoTargetSlot => {
            print_error(
                &format!("slot {slot} does not exist, so it can't take over anything"),
                Some("run `postrider migrate`, which creates it, or correct postgres.slot"),
            );
            return Ok(OPERATOR);
        }
    };
    let done = if *dry_run { "would take over" } else { "took over" };
    print_line(&format!("{done} {events} of slot {from} for slot {slot}"));
    if has_job {
        print_note(&format!(
            "a snapshot or recovery of slot {from} was interrupted, and is still stored: \
             `postrider --slot {from} recover` recreates the slot and continues it, \
             `postrider --slot {from} teardown --yes` deletes it"
        ));
    }
    Ok(DONE)
}

/// The width of the terminal, if standard output is one.
fn width() -> Option<usize> {
    let terminal = stdout().is_terminal().then(console::Term::stdout)?;
    terminal.size_checked().map(|(_, columns)| usize::from(columns))
}

fn json_line(entry: &Entry) -> String {
    serde_json::to_string(entry).unwrap_or_default()
}

/// Additional information, on standard error.
fn print_note(line: &str) {
    let _ = writeln!(stderr(), "note: {line}");
}
