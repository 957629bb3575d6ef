//! Pauses of the cleaner.

use std::time::Duration;

use tokio::time::Instant;

/// Timers can't measure shorter pauses.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// The cleaner rests for a third of the time, so that it does not delay events.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    owed: Duration,
}

impl Pace {
    /// Rests for half of the time since `began`. What is too short for a pause is added to the
    /// next.
    pub(crate) async fn rest(&mut self, began: Instant) {
        self.owed += began.elapsed() / 2;
        if self.owed >= PAUSE_MIN {
            let resting = Instant::now();
            tokio::time::sleep(self.owed).await;
            self.owed = self.owed.saturating_sub(resting.elapsed());
        }
    }
}
