//! A released migration is never edited: it was already applied to databases.

use sha2::{Digest, Sha256};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations");

/// All migrations, with the SHA-256 of each file. A new one is added when it is released.
const LANDED: &[(&str, &str)] = &[
    ("0001_schema.sql", "579016d26265d20b7cb8f2748dccf4e2dac847a8342b4f0e1c8977b1a19b9f2d"),
    ("0002_undelivered.sql", "0cc457fb27f3159a7f08e8f58620c32738e4d925f2c8e46df95867c1875d5bea"),
    ("0003_progress.sql", "7c704b7fabef50ee775e3d2769164239b81d8ea5642741cd0cec90595625b702"),
    ("0004_enqueue.sql", "ae56a066f91bdb1b8ef1bc0ed5fd1fefaf22c9a4c3ecd1b4268e4e8ba2e80c49"),
    ("0005_messages.sql", "d7b1a519cd8a841a84581bb44d1958d2a186a7b1d3399fc927579a2eb92656d8"),
    ("0006_inbox.sql", "42d076820c7da09deb26da71a2b54861a5faeb8bf9da4936f32d35f0cae856c7"),
    ("0007_cleaner.sql", "8edc4dc8e668e9758da8b28949bfeac199ad63bdec1114e82ff768af4eb1adf8"),
    ("0008_emit_batch.sql", "711c116ae9a1db16d901c94b083baa8f2285b5f5cfce396a43d3bfb47a9fcc91"),
    ("0009_recovery.sql", "89e98476be4a043cea17ad91e61bc656f3b730493554c42365d54f097b4e0639"),
    ("0010_coverage.sql", "14a490bb4dbe93535107af7c80d843b282a84a5d891da16b89e0048c0d9444f7"),
    ("0011_backfill_order.sql", "73d6d890b2d3e745acafcb2cf3bd286c77a4afa31263b01d50b8bdfaa5621d9e"),
    ("0012_parked_slots.sql", "973067edf1751a6e2f1f039d8afbc49260d8fc641f2b3803e692f76633ddc121"),
    ("0013_retention.sql", "d4b85f989d40a4eb79892043f8eb435a1ff8cb35fa1a168a201906b918c8b931"),
    (
        "0014_inside_transaction.sql",
        "ccec402d6c3a5036c6cd3e6586cb837a189a3d384aa05dbcec578eda3b9e9867",
    ),
    ("0015_destination.sql", "9c61c1a7e26413c1a75c170a1c1c29ac463685207cfc9532e5771c83bdc78825"),
    (
        "0016_messages_promised.sql",
        "2d6b6811bda39fb9c15d3a1aa82f43742f993ad063584f2b40d80d030d6cda74",
    ),
    ("0017_enqueue_new.sql", "beff5b1642aa862a96417c72c05efdf01870db4ddd5d1100fcbde2891075d4ec"),
    (
        "0018_parked_identity.sql",
        "e9c4bb5ccfad96a5a114f28b53f6a6acd1cdc4b73dee3920681cd1a43c52d770",
    ),
    (
        "0019_messages_while_recovering.sql",
        "7525cc5d936ec97766e4d2765014a81012c809668ea18b46ddfc71f712951028",
    ),
    (
        "0020_coverage_of_partitions.sql",
        "95fb64c5eea83373f6271fa590cf11d3e00fe356103ca0314fa30a32c6d85857",
    ),
    ("0021_side_table.sql", "efc53e98197bcdf6b3187909db9d3f869fd1ab286c4aa65b6604716dba25437c"),
    ("0022_backfill_lease.sql", "848c5f53369927695575a8f8283549370706c74198ceca57ca8b63e38951e9d4"),
    ("0023_compatible.sql", "9ce827bd8b8cfd7a9f8d98e392e7785ea1cb4b5079cfbba55b418704febb0e37"),
    (
        "0024_qualified_names.sql",
        "275d831da841724f0e87f2bb4cb569fe1c83a1601b0a9e2d816fd11ae3323a01",
    ),
    ("0025_bound_checks.sql", "59f1909ccfe12aade43ba73b289310f41afaa16e204146ff1925a6b7c1cda285"),
    (
        "0026_emit_needs_slot.sql",
        "459897042c48479639778ca5172bd86f74c320f460d0e7a1e53376fbe4d2a09b",
    ),
    ("0027_command_lock.sql", "96f9d279879c09599128cf490d6c385d44bd9438554c793c6c1e4dfe24464290"),
    ("0028_plain_comments.sql", "17083935adbf3f0dfe46e15afc2e9139b6532c2ce175c59fac74b756f05bd096"),
    ("0029_mapped_columns.sql", "ea10d0efdfa2d794fa1577b2885a0fb13fd8190a929af11509f04bf996d5e3c6"),
    ("0030_enqueue_mapped.sql", "c05822c17697ff1af72c9368de4dde8a8f729923c9e2c0cd020806ddfd93df8d"),
    ("0031_routes.sql", "e3d0f18a20b0b4a1b992dff2f2326054181cb228e9de70f67ad357384713b0b6"),
];

/// Otherwise one could be edited after its release without being noticed.
#[test]
fn every_migration_is_listed() {
    let names = std::fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    // The other files are not run by number.
    names.retain(|name| name.starts_with(|first: char| first.is_ascii_digit()));
    names.sort_unstable();
    let listed: Vec<&str> = LANDED.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, listed, "list the new migration with the SHA-256 of its file");
}

#[test]
fn no_migration_that_has_landed_was_edited() {
    for (name, expect) in LANDED {
        let path = format!("{FOLDER}/{name}");
        let file = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let found: String = Sha256::digest(&file).iter().map(|it| format!("{it:02x}")).collect();
        assert_eq!(found, *expect, "{name} was edited: write a new migration instead");
    }
}
