//! The advisory locks that postrider takes. Any role can take any of them, so none decides
//! anything: what decides are row locks, table locks and leases in our own tables (ADR 19).

/// Held by one `migrate`, `recover` or `teardown` per database at a time while no table exists that
/// could be locked ("postride" in ASCII).
pub(crate) const COMMAND: i64 = 0x706f_7374_7269_6465;

/// Held shared by the relays of a slot, to show that they live ("prsl" in ASCII); the second number
/// is `hashtext` of the slot's name. Slots whose hashes are the same only wait for
/// `wal_sender_timeout` more often than necessary.
pub(crate) const RELAY_CLASS: i32 = 0x7072_736c;
