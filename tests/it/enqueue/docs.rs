//! The documentation shows exactly the files that scripts/try-clients runs.

#[test]
fn the_snippets_are_the_files() {
    let docs = include_str!("../../../docs/enqueue.md");
    for file in [
        include_str!("../../../examples/clients/python/enqueue.py"),
        include_str!("../../../examples/clients/go/main.go"),
        include_str!("../../../examples/clients/java/Enqueue.java"),
        include_str!("../../../examples/clients/node/enqueue.mjs"),
    ] {
        assert!(docs.contains(&format!("\n{file}```\n")), "not in docs/enqueue.md:\n{file}");
    }
}
