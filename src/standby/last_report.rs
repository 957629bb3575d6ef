//! What a standby waits for, logged when it changes.

use crate::ops::{State, Vitals};
use crate::standby::liveness::Holder;

/// What was reported last.
#[derive(Default)]
pub(super) struct LastReport {
    holder: Option<Holder>,
    /// What is promised but not read here, which keeps this instance from taking over.
    unread: Vec<String>,
    has_obstacle: bool,
    /// Something was reported, and what is not read here is still the same.
    was_reported: bool,
}

impl LastReport {
    pub(super) fn was_reported(&self) -> bool {
        self.was_reported
    }

    pub(super) fn set_unread(&mut self, unread: Vec<String>) {
        self.was_reported &= self.unread == unread;
        self.unread = unread;
    }

    /// Sets the state, and logs what has changed.
    pub(super) fn report(
        &mut self,
        slot: &str,
        holder: Option<&Holder>,
        obstacle: Option<String>,
        vitals: &Vitals,
    ) {
        let is_same_holder = match (&self.holder, holder) {
            (Some(last), Some(holder)) => last.is_same_session(holder),
            (last, holder) => last.is_none() && holder.is_none(),
        };
        let has_obstacle = obstacle.is_some();
        let has_changed =
            !self.was_reported || !is_same_holder || self.has_obstacle != has_obstacle;
        let mut reason = match holder {
            Some(holder) => format!("slot \"{slot}\" is held by {holder}"),
            None => format!("slot \"{slot}\" is free"),
        };
        if !self.unread.is_empty() {
            let unread = format!(
                ", and this instance does not take over: it does not read {}, which is promised \
                 for the slot; start it with the configuration that names them (postgres.tables, \
                 postgres.messages)",
                self.unread.join(", ")
            );
            reason.push_str(&unread);
        }
        if let Some(obstacle) = obstacle {
            reason.push_str(&format!(", and {obstacle}"));
        }
        let cannot_take_over = has_obstacle || !self.unread.is_empty();
        if has_changed && cannot_take_over {
            tracing::warn!("standing by: {reason}");
        } else if has_changed {
            tracing::info!("standing by: {reason}; this instance takes over when the slot is free");
        }
        // Every time, because the time since a broker was last reached changes.
        let state = if cannot_take_over { State::StandbyBlocked } else { State::Standby };
        vitals.set_state(state, Some(reason));
        self.holder = holder.cloned();
        (self.has_obstacle, self.was_reported) = (has_obstacle, true);
    }
}
