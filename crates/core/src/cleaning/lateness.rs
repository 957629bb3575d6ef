//! Which rows have had their retention since they were published: the decision, without a database.
//!
//! A row does not record when it was written or published, only which transaction wrote it. Marks
//! give both times roughly: transactions from [`Mark::next_xid`] on began after the mark was made,
//! and those below [`Done::over_before`] were published when it was done. A row that was published
//! about as soon as it was written only needs an old `created_at`. One that had to wait, for
//! example because the relay was stopped, is kept until its publication is older than the retention
//! too.

/// The share of the retention by which a publication may be late without counting as late.
const TOLERATED_SHARE: f64 = 1.0 / 8.0;
/// Marks made within that time.
const MARKS_PER_TOLERATED: f64 = 4.0;
/// Later than every transaction, and still a number that SQL accepts.
pub const NEVER: u64 = i64::MAX as u64;

/// How long a publication may take and still count as prompt.
pub fn tolerated_seconds(retention_seconds: f64) -> f64 {
    retention_seconds * TOLERATED_SHARE
}

/// How long after one mark the next is made.
pub fn spacing_seconds(retention_seconds: f64) -> f64 {
    tolerated_seconds(retention_seconds) / MARKS_PER_TOLERATED
}

/// A moment, and which transactions had begun by then.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// How long ago it was made.
    pub seconds_ago: f64,
    /// Transactions from this one on began later.
    pub next_xid: u64,
    /// Once every slot has passed it.
    pub done: Option<Done>,
}

/// What was published by when.
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    /// How long ago that was seen.
    pub seconds_ago: f64,
    /// Events of transactions below this one were published by then.
    pub over_before: u64,
}

/// The transactions whose rows have had their retention: those below `published_before`, and those
/// from `prompt_since` on, which were published as soon as they were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionBounds {
    pub published_before: u64,
    pub prompt_since: u64,
}

impl RetentionBounds {
    pub fn from_marks(marks: &[Mark], retention_seconds: f64) -> Self {
        let tolerated = tolerated_seconds(retention_seconds);
        // Rows from here on were written at most `tolerated` before that moment.
        let written_since = |seconds_ago: f64| {
            let recent = marks.iter().filter(|mark| mark.seconds_ago <= seconds_ago + tolerated);
            recent.map(|mark| mark.next_xid).min().unwrap_or(NEVER)
        };
        let mut done: Vec<&Done> = marks.iter().filter_map(|mark| mark.done.as_ref()).collect();
        done.sort_by_key(|done| std::cmp::Reverse(done.over_before));
        // From now back, as long as one prompt stretch meets the next.
        let mut prompt_since = written_since(0.0);
        for done in &done {
            if done.over_before >= prompt_since {
                prompt_since = prompt_since.min(written_since(done.seconds_ago));
            }
        }
        let passed = done.iter().filter(|done| done.seconds_ago >= retention_seconds);
        let published_before = passed.map(|done| done.over_before).max().unwrap_or(0);
        RetentionBounds {
            published_before,
            prompt_since: if prompt_since <= published_before { 0 } else { prompt_since },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With this retention, a publication may take ten seconds.
    const RETENTION: f64 = 80.0;

    fn mark(seconds_ago: f64, next_xid: u64) -> Mark {
        Mark { seconds_ago, next_xid, done: None }
    }

    fn done(made_ago: f64, next: u64, done_ago: f64, over_before: u64) -> Mark {
        Mark { done: Some(Done { seconds_ago: done_ago, over_before }), ..mark(made_ago, next) }
    }

    #[track_caller]
    fn check(marks: &[Mark], published_before: u64, prompt_since: u64) {
        let expect = RetentionBounds { published_before, prompt_since };
        assert_eq!(RetentionBounds::from_marks(marks, RETENTION), expect);
    }

    #[test]
    fn without_marks_every_row_waits() {
        check(&[], 0, NEVER);
        check(&[mark(0.0, 100)], 0, 100);
        // The first mark: what was written before it may have been published at any time.
        check(&[done(70.0, 100, 69.0, 99)], 0, NEVER);
        check(&[done(70.0, 100, 69.0, 99), mark(1.0, 200)], 0, 200);
        check(&[done(90.0, 100, 81.0, 99), mark(1.0, 200)], 99, 200);
    }

    #[test]
    fn rows_of_a_relay_that_keeps_up_wait_for_nothing() {
        let at = |n: u32| f64::from(10 - n) * spacing_seconds(RETENTION);
        let number = |n: u32| u64::from(n) * 100;
        let marks: Vec<Mark> = (0..=10)
            .map(|n| done(at(n), number(n), (at(n) - 1.0).max(0.0), number(n).saturating_sub(3)))
            .collect();
        check(&marks, 0, 0);
        // A slot that has just begun.
        check(&[mark(8.0, 100)], 0, 100);
        check(&[mark(8.0, 100), done(3.0, 200, 1.0, 199)], 0, 100);
    }

    #[test]
    fn rows_from_an_outage_wait_until_their_publication_is_old() {
        // Stopped from 170 to 70 seconds ago.
        let mut marks = vec![done(175.0, 100, 174.0, 100), done(170.0, 200, 169.0, 200)];
        marks.extend([done(70.0, 300, 69.0, 300), done(65.0, 400, 64.0, 400)]);
        for n in 0..13_u32 {
            let ago = 60.0 - f64::from(n) * 5.0;
            let number = 500 + u64::from(n) * 100;
            marks.push(done(ago, number, ago, number));
        }
        check(&marks, 200, 300);
        // Twelve seconds later the publication of what was written meanwhile is older than that.
        for mark in &mut marks {
            mark.seconds_ago += 12.0;
            mark.done.as_mut().unwrap().seconds_ago += 12.0;
        }
        let number = 1800;
        marks.push(done(7.0, number, 7.0, number));
        marks.push(done(2.0, number + 100, 2.0, number + 100));
        check(&marks, 300, 0);
    }

    #[test]
    fn a_relay_that_was_up_and_could_not_publish_is_late_too() {
        let marks = [
            done(100.0, 100, 99.0, 100),
            done(60.0, 200, 2.0, 200),
            done(40.0, 300, 2.0, 300),
            done(5.0, 400, 2.0, 400),
            mark(1.0, 500),
        ];
        check(&marks, 100, 400);
    }
}
