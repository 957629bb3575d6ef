//! `postrider replay`

use crate::config::{Config, Needs};
use crate::parking::dead::{CommandError, printable};
use crate::parking::filter::Filter;
use crate::parking::replay::{self, Request, Summary, Timestamp};
use crate::parking::store::DeadCount;
use crate::plural::plural;
use crate::shutdown::Shutdown;
use crate::sink::kafka::Kafka;
use clap::{Args, ValueEnum};
use indicatif::{HumanCount, ProgressBar, ProgressState, ProgressStyle};

use super::dead::failed;
use super::filters::{SELECT, Selection};
use super::{DONE, FAILED, USAGE, no_runtime, print_error, print_line, runtime};

#[derive(Args)]
pub(super) struct Replay {
    /// Publish nothing; only count the events, by topic and reason
    #[arg(long)]
    dry_run: bool,
    /// Maximum number of events per second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Record timestamp: time of the replay (now) or of the commit (original)
    #[arg(long, value_enum, default_value_t = Stamp::Now)]
    timestamp: Stamp,
    /// Let events overtake earlier ones of their ordering key that are not published
    #[arg(long)]
    allow_reorder: bool,
    /// Publish to another Kafka cluster, or in another relay.environment, than before
    #[arg(long)]
    accept_destination: bool,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(super) selection: Selection,
}

#[derive(Clone, Copy, ValueEnum)]
enum Stamp {
    Now,
    Original,
}

impl Replay {
    pub(super) fn needs(&self) -> Needs {
        if self.dry_run { Needs::Postgres } else { Needs::PostgresAndKafka }
    }
}

pub(super) fn replay(mut config: Config, flags: Replay) -> u8 {
    config.relay.accept_destination = flags.accept_destination;
    let Replay { selection, dry_run, rate, timestamp, allow_reorder, json, .. } = flags;
    let Some(filter) = selection.into_filter() else {
        print_error(&"no events selected", Some(SELECT));
        return USAGE;
    };
    let timestamp = match timestamp {
        Stamp::Now => Timestamp::Now,
        Stamp::Original => Timestamp::Original,
    };
    let request = Request { filter, rate, timestamp, allow_reorder };
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return no_runtime(&error),
    };
    let code = runtime.block_on(async {
        let result = if dry_run {
            count(&config, &request.filter, json).await
        } else {
            publish(&config, &request, json).await
        };
        result.unwrap_or_else(|error| failed(&error))
    });
    // A request to an unreachable broker may still be waiting; its answer is not needed.
    runtime.shutdown_background();
    code
}

async fn count(config: &Config, filter: &Filter, json: bool) -> Result<u8, CommandError> {
    let counts = replay::dry_run(config, filter).await?;
    for count in &counts {
        print_line(&if json {
            serde_json::to_string(count).unwrap_or_default()
        } else {
            count_line(count)
        });
    }
    if !json {
        let events: u64 =
            counts.iter().filter(|count| count.publishable).map(|count| count.events).sum();
        print_line(&format!("replay would publish up to {}", plural(events, "dead event")));
    }
    Ok(DONE)
}

fn count_line(count: &DeadCount) -> String {
    let (events, topic, reason) = (count.events, printable(&count.topic), printable(&count.reason));
    let note = if count.publishable { "" } else { " (can't be published as they are)" };
    format!("{events:>10}  {topic}  {reason}{note}")
}

async fn publish(config: &Config, request: &Request, json: bool) -> Result<u8, CommandError> {
    // The guard keeps the signal handlers installed.
    let (_signals, mut shutdown) = match Shutdown::on_signals() {
        Ok(signals) => signals,
        Err(error) => return Ok(no_runtime(&error)),
    };
    let bar = progress_bar();
    let mut show_progress = |summary: &Summary| {
        bar.set_length(summary.found);
        bar.set_position(summary.done());
    };
    let kafka = Kafka::new(&config.kafka);
    let result = replay::replay(config, &kafka, request, &mut shutdown, &mut show_progress).await;
    bar.finish_and_clear();
    let summary = result?;
    if json {
        print_line(&json_summary(&summary))
    } else {
        print_line(&summary.to_string())
    }
    if let Some(why) = &summary.connection_error {
        print_error(
            &interrupted(why),
            Some("fix the connection to Kafka and run it again; published events are not repeated"),
        );
    }
    Ok(if summary.is_complete() { DONE } else { FAILED })
}

fn interrupted(why: &str) -> String {
    format!("replay was interrupted: {}", printable(why))
}

fn json_summary(summary: &Summary) -> String {
    let mut object = serde_json::to_value(summary).unwrap_or_default();
    if let Some(fields) = object.as_object_mut() {
        fields.insert("left".to_owned(), summary.left().into());
    }
    object.to_string()
}

/// The progress bar is shown on stderr, and only if that is a terminal.
fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    let look = "{bar:40} {human_pos} of {human_len}, {speed}, {eta} to go";
    let speed = |state: &ProgressState, text: &mut dyn std::fmt::Write| {
        // A failure to draw the line can't be reported.
        let _ = write!(text, "{}/s", HumanCount(state.per_sec() as u64));
    };
    match ProgressStyle::with_template(look) {
        Ok(style) => bar.with_style(style.with_key("speed", speed)),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_others_move_no_cursor() {
        let count = DeadCount {
            topic: "a\x1b[2Jb\nc".to_owned(),
            reason: "refused\r".to_owned(),
            publishable: true,
            events: 7,
        };
        assert_eq!(count_line(&count), "         7  a\u{fffd}[2Jb\u{fffd}c  refused\u{fffd}");
        assert_eq!(interrupted("a\x1b]0;b\x07"), "replay was interrupted: a\u{fffd}]0;b\u{fffd}");
    }
}
