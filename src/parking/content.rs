//! Whether Postgres refused to store an event because of the event's content.

use tokio_postgres::error::SqlState;

/// Whether Postgres refuses to store an event's content, and would do so again: a character that
/// the database's encoding lacks (22), a constraint of the table (23), a size limit (54). Any other
/// error can be temporary. So is an id that was assigned twice: the next session advances the
/// sequence, and the event is fine.
pub(super) fn is_about_content(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(refuses_content)
}

fn refuses_content(code: &SqlState) -> bool {
    let classes = ["22", "23", "54"];
    *code != SqlState::UNIQUE_VIOLATION && classes.iter().any(|it| code.code().starts_with(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_taken_says_nothing_about_the_event() {
        for code in [SqlState::UNTRANSLATABLE_CHARACTER, SqlState::CHECK_VIOLATION] {
            assert!(refuses_content(&code), "{code:?}");
        }
        for code in [SqlState::UNIQUE_VIOLATION, SqlState::ADMIN_SHUTDOWN, SqlState::DISK_FULL] {
            assert!(!refuses_content(&code), "{code:?}");
        }
    }
}
