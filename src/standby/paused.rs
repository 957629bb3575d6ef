//! A relay that is switched off (`relay.enabled = false`): it reads nothing, connects to no broker,
//! and watches meanwhile how much WAL its slot retains.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::forecast::forecast;
use super::slot_watch::{CHECK_EVERY, slot_position};
use crate::checks::{ServerFacts, check_slot, confirmed_position};
use crate::config::PostgresConfig;
use crate::ops::{SlotPosition, State, Vitals};
use crate::postgres::{Connected, connect};
use crate::session_end::{Fatal, RestartReason, SessionEnd};
use crate::shutdown::Shutdown;

/// The second warning comes soon, because it is the first that can report how fast the WAL grows;
/// after that the interval doubles, up to a maximum.
const REPEAT_AFTER_MIN: Duration = CHECK_EVERY;
const REPEAT_AFTER_MAX: Duration = Duration::from_secs(60);

const WHY: &str = "relay.enabled is false, so events wait in the WAL";

/// Watches the slot until shutdown.
pub(crate) async fn run(
    config: &PostgresConfig,
    vitals: &Vitals,
    shutdown: &mut Shutdown,
) -> Result<(), Fatal> {
    vitals.set_state(State::Paused, Some(WHY.to_owned()));
    let mut warnings = Warnings::new();
    loop {
        let end = tokio::select! {
            biased;
            () = shutdown.draining() => break,
            Err(end) = watch(config, vitals, &mut warnings) => end,
        };
        let reason = match end {
            SessionEnd::Shutdown => break,
            SessionEnd::Fatal(fatal) => return Err(fatal),
            SessionEnd::Restart(restart) => restart.text,
            SessionEnd::BackfillFirst => "rows of the tables have to be published first".to_owned(),
        };
        vitals
            .set_state(State::Paused, Some(format!("{WHY}; the slot can't be checked: {reason}")));
        warnings.warn_unreadable(&reason);
        tokio::select! {
            () = shutdown.draining() => break,
            () = tokio::time::sleep(CHECK_EVERY) => {}
        }
    }
    tracing::info!("postrider stops; it was paused");
    Ok(())
}

async fn watch(
    config: &PostgresConfig,
    vitals: &Vitals,
    warnings: &mut Warnings,
) -> Result<Infallible, SessionEnd> {
    let Connected { client, guard: _guard, .. } = connect(&config.connection).await?;
    let limit = config.connection.connect_limit();
    let mut tick = tokio::time::interval(CHECK_EVERY);
    loop {
        tick.tick().await;
        let looking = async {
            ServerFacts::look_up(&client).await?.check_primary()?;
            check_slot(&client, config).await??;
            let confirmed = confirmed_position(&client, &config.slot).await?;
            Ok::<_, SessionEnd>((slot_position(&client, &config.slot).await?, confirmed))
        };
        let silent =
            |_| SessionEnd::restart(RestartReason::Postgres, format!("no answer within {limit:?}"));
        let (position, confirmed) = timeout(limit, looking).await.map_err(silent)??;
        vitals.set_slot(position);
        vitals.set_confirmed(confirmed);
        vitals.set_state(State::Paused, Some(WHY.to_owned()));
        warnings.warn_of_position(&config.slot, position);
    }
}

/// Repeats what is at stake, but not after every check.
struct Warnings {
    /// The last warning, and what was seen then.
    last: Option<(Instant, Option<SlotPosition>)>,
    repeat_after: Duration,
}

impl Warnings {
    fn new() -> Self {
        Warnings { last: None, repeat_after: REPEAT_AFTER_MIN }
    }

    fn warn_of_position(&mut self, slot: &str, now: SlotPosition) {
        if !self.is_due() {
            return;
        }
        let before = self.last.and_then(|(at, seen)| Some((seen?, at.elapsed())));
        tracing::warn!(
            slot,
            retained_bytes = now.retained_bytes,
            "paused, because relay.enabled is false: nothing is published, and {}",
            forecast(now, before)
        );
        self.note_warning(Some(now));
    }

    fn warn_unreadable(&mut self, reason: &str) {
        if self.is_due() {
            tracing::warn!(reason, "paused, and the slot can't be checked; retrying");
            self.note_warning(None);
        }
    }

    fn is_due(&self) -> bool {
        self.last.is_none_or(|(at, _)| at.elapsed() >= self.repeat_after)
    }

    fn note_warning(&mut self, seen: Option<SlotPosition>) {
        if self.last.is_some() {
            self.repeat_after = self.repeat_after.saturating_mul(2).min(REPEAT_AFTER_MAX);
        }
        self.last = Some((Instant::now(), seen));
    }
}
