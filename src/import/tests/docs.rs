//! The page shows what the command does.

use super::imported;

const PAGE: &str = include_str!("../../../docs/from-debezium.md");

/// What stands between fences in the section.
fn blocks() -> Vec<&'static str> {
    let section = PAGE.split("## Import a configuration\n").nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    section.split("```\n").skip(1).step_by(2).collect()
}

#[test]
fn the_example_is_true() {
    let blocks = blocks();
    let [_, connector, configuration, differences] = blocks.as_slice() else {
        panic!("{} blocks", blocks.len())
    };
    let (toml, findings) = imported(connector, "connector.json");
    // The page leaves out the comment at the head.
    let (_, toml) = toml.split_once("\n[postgres]").unwrap();
    assert_eq!(format!("[postgres]{toml}"), **configuration);
    assert_eq!(findings, **differences);
}
