//! How large the groups of a topic may be, by how it has accepted groups so far.

/// Records of one group at the most.
const GROUP_MAX: usize = 64;

pub(super) struct GroupLimits {
    pub(super) group_max: usize,
    /// The size that groups grow up to.
    pub(super) ceiling: usize,
    /// The smallest record that was refused alone for its size: records of this size or more are
    /// sent alone.
    pub(super) too_large_bytes: Option<usize>,
    /// A timestamp was refused: records that are still here get the current time before they are
    /// sent.
    pub(super) uses_current_time: bool,
}

impl Default for GroupLimits {
    fn default() -> Self {
        GroupLimits {
            group_max: 1,
            ceiling: GROUP_MAX,
            too_large_bytes: None,
            uses_current_time: false,
        }
    }
}

impl GroupLimits {
    /// A group was acknowledged as a whole.
    pub(super) fn raise(&mut self) {
        self.ceiling = (self.ceiling + 1).min(GROUP_MAX);
        self.group_max = (self.group_max * 2).min(self.ceiling);
    }

    /// A record of this size was refused alone for its size.
    pub(super) fn note_too_large(&mut self, bytes: usize) {
        self.too_large_bytes = Some(self.too_large_bytes.map_or(bytes, |known| known.min(bytes)));
    }

    /// Records of a group of this size were refused.
    pub(super) fn lower(&mut self, group_size: usize) {
        self.ceiling = (group_size / 2).max(1);
        self.group_max = 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_grow_while_all_goes_well() {
        let mut limits = GroupLimits::default();
        for expect in [2, 4, 8, 16, 32, 64, 64] {
            limits.raise();
            assert_eq!(limits.group_max, expect);
        }
        limits.lower(64);
        assert_eq!((limits.group_max, limits.ceiling), (1, 32));
    }
}
