//! What a check has found to be wrong.

use std::borrow::Cow;
use std::fmt;

use crate::progress::{Gap, Unsent};
use crate::rights::NoAccess;
use crate::session_end::{Fatal, RestartReason, SessionEnd};

/// Something that is wrong, why that matters, and the fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// What is wrong, with its value.
    pub(crate) what: String,
    /// Why that matters; empty if `what` already shows that.
    pub(crate) why: Cow<'static, str>,
    /// What an operator has to do.
    pub(crate) fix: String,
    /// It may change while a relay waits: a server that is a standby may be promoted.
    pub(crate) may_pass: bool,
    /// The configuration is wrong, which only shows when it is compared with the database.
    pub(crate) in_settings: bool,
}

impl Finding {
    pub(crate) fn new(
        what: impl Into<String>,
        why: impl Into<Cow<'static, str>>,
        fix: impl Into<String>,
    ) -> Self {
        Finding {
            what: what.into(),
            why: why.into(),
            fix: fix.into(),
            may_pass: false,
            in_settings: false,
        }
    }

    pub(crate) fn passing(self) -> Self {
        Finding { may_pass: true, ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why.as_ref() {
            "" => f.write_str(&self.what),
            why => write!(f, "{}: {why}", self.what),
        }
    }
}

impl std::error::Error for Finding {}

/// Everything that checks have found, in the order in which it has to be fixed.
#[derive(Debug, Default)]
pub(crate) struct Findings(pub(super) Vec<Finding>);

impl Findings {
    /// Notes what a check has found. Returns what it has learned if nothing is wrong.
    pub(crate) fn note<T>(&mut self, checked: Result<T, Finding>) -> Option<T> {
        checked.map_err(|finding| self.0.push(finding)).ok()
    }

    /// The one to be fixed first. Errors of the configuration are reported together.
    pub(crate) fn first(self) -> Option<Finding> {
        let mut findings = self.0.into_iter();
        let first = findings.next()?;
        if !first.in_settings {
            return Some(first);
        }
        Some(findings.filter(|it| it.in_settings).fold(first, |all, next| Finding {
            what: format!("{}; {}", all.what, next.what),
            ..all
        }))
    }
}

impl From<Gap> for Finding {
    fn from(gap: Gap) -> Self {
        Finding::new(gap.to_string(), "", gap.fix())
    }
}

impl From<Unsent> for Finding {
    fn from(unsent: Unsent) -> Self {
        Finding::new(unsent.to_string(), "", unsent.fix())
    }
}

impl From<NoAccess> for Finding {
    fn from(lacking: NoAccess) -> Self {
        Finding::new(lacking.text, "", lacking.fix)
    }
}

/// A relay or a command ends with the first finding, or waits for it to pass.
impl From<Finding> for SessionEnd {
    fn from(finding: Finding) -> Self {
        if finding.may_pass {
            let text = format!("{finding}; {}", finding.fix);
            SessionEnd::restart(RestartReason::Postgres, text)
        } else {
            let fatal = Fatal::new(finding.to_string(), finding.fix);
            SessionEnd::Fatal(if finding.in_settings { fatal.in_settings() } else { fatal })
        }
    }
}
