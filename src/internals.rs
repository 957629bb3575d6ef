//! What this package's own integration tests drive directly, on real servers. Not an API: it
//! changes without notice.

pub use crate::backfill::store::Attempt;
pub use crate::config::{CleanerConfig, Flags, Inputs, Needs, Order, OutboxTable, TableName, keys};
pub use crate::parking::poller::{KeyDelivered, Poller};
pub use crate::sink::kafka::murmur2::partition_of;

/// All SQL on the side table.
pub mod store {
    pub use crate::parking::store::{
        Acknowledged, Claim, Failure, ParkError, ParkedRow, ParkingSession, TakeOver, acknowledge,
        begin_parking, begin_session, claim, clean, clean_discarded, counts, due, expire, fail,
        free_keys, held_keys, live_total, lock, orphans, park, plan_take_over, promote, rebase,
        reference_value, release_untried, rescope, sweep, take_over, takeovers,
    };
    pub use crate::rights::{NoAccess, check_access};
}

/// How the cleaner picks rows and deletes them.
pub mod cleaner {
    pub use crate::cleaner::pick::{Picked, Picker};
    pub use crate::cleaner::rules::{CleaningRules, RowFilter};
    pub use crate::cleaner::table::{CleanableTable, Leaf};
}

/// What is promised for a slot.
pub mod coverage {
    pub use crate::progress::coverage::cover;
}
