//! Creating and dropping what postrider needs in a database.

pub(crate) mod migrate;
pub(crate) mod teardown;
