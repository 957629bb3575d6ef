//! What is printed at the end.

use std::fmt;

use testkit::debezium::comparison::{Difference, KnownDifference};

/// Longer differences are cut: records with schemas have thousands of characters.
const CHARACTERS_MAX: usize = 240;

/// One case.
pub(crate) struct Line {
    pub(crate) case: String,
    pub(crate) rows: usize,
    /// At which Debezium stops.
    pub(crate) stops: usize,
    pub(crate) differences: Vec<Difference>,
}

pub(crate) struct Table {
    pub(crate) lines: Vec<Line>,
    pub(crate) known: Vec<KnownDifference>,
}

impl Table {
    fn reason(&self, difference: &Difference) -> Option<&str> {
        let known = self.known.iter().find(|known| known.covers(difference));
        known.map(|known| known.reason.as_str())
    }

    fn differences(&self) -> impl Iterator<Item = &Difference> {
        self.lines.iter().flat_map(|line| &line.differences)
    }

    /// Differences that nobody has explained.
    pub(crate) fn unknown_count(&self) -> usize {
        self.differences().filter(|difference| self.reason(difference).is_none()).count()
    }

    /// Known differences of these cases that are none.
    pub(crate) fn unused(&self) -> Vec<&KnownDifference> {
        let is_ours = |known: &&KnownDifference| self.lines.iter().any(|it| it.case == known.case);
        let is_unused = |known: &&KnownDifference| !self.differences().any(|it| known.covers(it));
        self.known.iter().filter(is_ours).filter(is_unused).collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.lines.iter().map(|line| line.case.len()).max().unwrap_or_default();
        writeln!(f, "{:width$}  rows  Debezium stops  postrider", "case")?;
        for line in &self.lines {
            let result = match line.differences.len() {
                0 => "equal".to_owned(),
                count => format!("{count} different"),
            };
            writeln!(f, "{:width$}  {:4}  {:14}  {result}", line.case, line.rows, line.stops)?;
            if let Some(difference) = line.differences.first() {
                writeln!(f, "    {}: {}", difference.id, cut(&difference.what))?;
            }
            let mut reasons: Vec<_> =
                line.differences.iter().filter_map(|it| self.reason(it)).collect();
            reasons.dedup();
            for reason in reasons {
                writeln!(f, "    known: {reason}")?;
            }
        }
        let rows: usize = self.lines.iter().map(|line| line.rows).sum();
        let stops: usize = self.lines.iter().map(|line| line.stops).sum();
        let different = self.differences().count();
        let (cases, unknown) = (self.lines.len(), self.unknown_count());
        writeln!(
            f,
            "\n{cases} cases, {rows} rows: {} equal, {} known to be different, {unknown} different. \
             Debezium stops at {stops} of them.",
            rows - different.min(rows),
            different - unknown,
        )?;
        for known in self.unused() {
            writeln!(f, "known, but not different: {} {:?}", known.case, known.id)?;
        }
        Ok(())
    }
}

fn cut(text: &str) -> String {
    if text.chars().count() <= CHARACTERS_MAX {
        return text.to_owned();
    }
    text.chars().take(CHARACTERS_MAX).chain(['…']).collect()
}
