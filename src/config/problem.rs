//! All errors of a configuration, reported together.

use std::fmt;
use std::path::{Path, PathBuf};

/// Where a value was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nowhere: it is the default.
    Default,
    /// In the configuration file.
    File {
        /// As it was named.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    /// In the environment.
    Variable(String),
    /// In a file that a `…_FILE` variable names.
    VariableFile {
        /// The variable, with its `_FILE`.
        variable: String,
        /// The file that holds the value.
        path: PathBuf,
    },
    /// On the command line.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::VariableFile { variable, path } => write!(f, "{variable} ({})", path.display()),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// One error: where the value was typed, what is wrong, and the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// None if the problem is that nothing was typed.
    pub origin: Option<Origin>,
    /// One sentence, the fix included; never a secret.
    pub message: String,
}

impl Problem {
    pub(crate) fn at(origin: &Origin, message: impl Into<String>) -> Self {
        Self { origin: Some(origin.clone()), message: message.into() }
    }

    pub(crate) fn missing(message: impl Into<String>) -> Self {
        Self { origin: None, message: message.into() }
    }

    pub(crate) fn in_file(path: &Path, line: usize, message: impl Into<String>) -> Self {
        Self::at(&Origin::File { path: path.to_owned(), line }, message)
    }

    pub(crate) fn in_variable(name: &str, message: impl Into<String>) -> Self {
        Self::at(&Origin::Variable(name.to_owned()), message)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Some(origin) => write!(f, "{origin}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// Everything that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", render(.problems))]
pub struct ConfigError {
    /// At least one.
    pub problems: Vec<Problem>,
}

fn render(problems: &[Problem]) -> String {
    let mut text = match problems.len() {
        1 => "the configuration has an error:".to_owned(),
        count => format!("the configuration has {count} errors:"),
    };
    for problem in problems {
        text.push_str("\n  ");
        text.push_str(&problem.to_string());
    }
    text
}
