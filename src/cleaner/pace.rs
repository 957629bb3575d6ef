//! How the cleaner keeps out of the way.

use std::time::Duration;

use tokio::time::Instant;

/// Timers can't tell shorter pauses.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// There is no hurry: a third of the time is for others, so that events are not published later because
/// of the cleaner.
#[derive(Debug, Default)]
pub struct Pace {
    owed: Duration,
}

impl Pace {
    /// Rests for half as long as was worked since `began`. What is too short for a pause is owed.
    pub async fn rest(&mut self, began: Instant) {
        self.owed += began.elapsed() / 2;
        if self.owed >= PAUSE_MIN {
            let resting = Instant::now();
            tokio::time::sleep(self.owed).await;
            self.owed = self.owed.saturating_sub(resting.elapsed());
        }
    }
}
