//! The characters of a regular expression, one after the other.

use super::error::{RegexFault, TopicRouterError, shown};

/// A character, and whether it stands between `\Q` and `\E`, where it means itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Symbol {
    pub(super) char: char,
    pub(super) is_quoted: bool,
    /// Its place among the characters that were typed, from 1.
    place: usize,
}

/// Where a part began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark(usize);

/// Where a part stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    from: usize,
    until: usize,
}

#[derive(Debug)]
pub(super) struct Cursor<'r> {
    regex: &'r str,
    symbols: Vec<Symbol>,
    next: usize,
}

impl<'r> Cursor<'r> {
    /// Java takes `\Q…\E` apart before everything else, also inside classes.
    pub(super) fn new(regex: &'r str) -> Self {
        let mut symbols = Vec::new();
        let mut is_quoted = false;
        let mut typed = regex.chars().zip(1..).peekable();
        while let Some((char, place)) = typed.next() {
            let after = typed.peek().map(|(after, _)| *after);
            match (char, after) {
                ('\\', Some('E')) if is_quoted => is_quoted = false,
                ('\\', Some('Q')) if !is_quoted => is_quoted = true,
                ('\\', Some(escaped)) if !is_quoted => {
                    symbols.push(Symbol { char, is_quoted, place });
                    symbols.push(Symbol { char: escaped, is_quoted, place: place + 1 });
                }
                _ => {
                    symbols.push(Symbol { char, is_quoted, place });
                    continue;
                }
            }
            typed.next();
        }
        Cursor { regex, symbols, next: 0 }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark(self.next)
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.next >= self.symbols.len()
    }

    pub(super) fn peek(&self) -> Option<Symbol> {
        self.symbols.get(self.next).copied()
    }

    /// Whether the next character is this one, and not quoted.
    pub(super) fn sees(&self, char: char) -> bool {
        self.sees_after(0, char)
    }

    /// The same for the character after `skipped` others.
    pub(super) fn sees_after(&self, skipped: usize, char: char) -> bool {
        let symbol = self.symbols.get(self.next + skipped);
        symbol.is_some_and(|symbol| symbol.char == char && !symbol.is_quoted)
    }

    pub(super) fn take(&mut self) -> Option<Symbol> {
        let symbol = self.peek()?;
        self.next += 1;
        Some(symbol)
    }

    /// Takes the next character if it is this one, and not quoted.
    pub(super) fn take_if(&mut self, char: char) -> bool {
        let is_there = self.sees(char);
        self.next += usize::from(is_there);
        is_there
    }

    /// Takes the next character if it is not quoted and fits.
    pub(super) fn take_where(&mut self, fits: impl Fn(char) -> bool) -> Option<char> {
        let symbol = self.peek().filter(|symbol| !symbol.is_quoted && fits(symbol.char))?;
        self.next += 1;
        Some(symbol.char)
    }

    /// What was read since then. At the end, or if nothing was read, the next character.
    pub(super) fn since(&self, mark: Mark) -> Span {
        Span { from: mark.0, until: self.next.max(mark.0 + 1) }
    }

    /// The error about what was read since then.
    pub(super) fn fault(&self, since: Mark, fault: RegexFault) -> TopicRouterError {
        self.fault_at(self.since(since), fault)
    }

    /// The error about a part.
    pub(super) fn fault_at(&self, span: Span, fault: RegexFault) -> TopicRouterError {
        let until = span.until.min(self.symbols.len());
        let part = self.symbols.get(span.from..until).unwrap_or_default();
        let construct: String = part.iter().map(|symbol| symbol.char).collect();
        let end = self.symbols.last().map_or(1, |last| last.place + 1);
        TopicRouterError::Regex {
            regex: shown(self.regex),
            construct: shown(&construct),
            at: part.first().map_or(end, |first| first.place),
            fault,
        }
    }
}
