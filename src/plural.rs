//! Numbers that agree with their nouns.

/// `1 event`, `2 events`.
pub(crate) fn plural(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        assert_eq!(plural(0, "dead event"), "0 dead events");
        assert_eq!(plural(1, "dead event"), "1 dead event");
        assert_eq!(plural(2, "dead event"), "2 dead events");
    }
}
