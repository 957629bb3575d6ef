//! A table of figures and their targets.

use std::fmt;

#[derive(Clone, Copy)]
pub(crate) enum Target {
    None,
    AtLeast(f64),
    AtMost(f64),
}

impl Target {
    fn is_met_by(self, value: f64) -> bool {
        match self {
            Target::None => true,
            Target::AtLeast(least) => value >= least,
            Target::AtMost(most) => value <= most,
        }
    }
}

struct Row {
    name: String,
    values: Vec<f64>,
    decimals: usize,
    target: Target,
}

#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Result<Row, String>>,
}

const NAME_WIDTH: usize = 40;
const VALUE_WIDTH: usize = 12;
/// The columns of values; the widest part has as many.
const VALUE_COLUMNS: usize = 3;

impl Table {
    pub(crate) fn heading(&mut self, text: String) {
        self.rows.push(Err(text));
    }

    pub(crate) fn row(&mut self, name: &str, values: Vec<f64>, decimals: usize, target: Target) {
        self.rows.push(Ok(Row { name: name.to_owned(), values, decimals, target }));
    }

    /// The number of figures that miss their target.
    pub(crate) fn misses(&self) -> usize {
        self.rows.iter().flatten().map(Row::misses).sum()
    }
}

impl Row {
    fn misses(&self) -> usize {
        self.values.iter().filter(|value| !self.target.is_met_by(**value)).count()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.rows {
            match row {
                Err(heading) => writeln!(f, "\n{heading}")?,
                Ok(row) => writeln!(f, "{row}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = format!("  {:<NAME_WIDTH$}", self.name);
        for column in 0..VALUE_COLUMNS {
            let value = self.values.get(column);
            let text = value.map_or(String::new(), |value| grouped(*value, self.decimals));
            line += &format!("{text:>VALUE_WIDTH$}");
        }
        let verdict = if self.misses() == 0 { "OK" } else { "MISSED" };
        match self.target {
            Target::None => {}
            Target::AtLeast(least) => line += &format!("   at least {least}: {verdict}"),
            Target::AtMost(most) => line += &format!("   at most {most}: {verdict}"),
        }
        write!(f, "{}", line.trim_end())
    }
}

/// 1234567.8 as 1,234,567.8.
fn grouped(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let digits = text.find('.').unwrap_or(text.len());
    let mut grouped = String::new();
    for (index, character) in text.chars().enumerate() {
        if index > 0 && index < digits && (digits - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(character);
    }
    grouped
}
