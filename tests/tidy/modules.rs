//! Modules know each other in one direction only, and ARCHITECTURE.md says which knows which.

use std::collections::{BTreeMap, BTreeSet};

use crate::files;
use crate::scan::{Kind, scan, without_tests};

type Graph = BTreeMap<String, BTreeSet<String>>;

const BEGIN: &str = "<!-- module graph: begin -->\n";
const END: &str = "<!-- module graph: end -->";

#[test]
fn no_cycles() {
    for folder in ["src", "crates/core/src", "crates/outbox/src", "crates/testkit/src"] {
        let graph = graph(folder);
        let cycles = cycles(&graph);
        assert!(cycles.is_empty(), "modules of {folder} that know each other: {cycles:?}");
    }
}

#[test]
fn architecture_has_the_graph() {
    let path = files::root().join("ARCHITECTURE.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect(BEGIN);
    let (found, after) = rest.split_once(END).expect(END);
    let expected = table(&graph("src"));
    if std::env::var_os("TIDY_WRITE").is_some() {
        std::fs::write(path, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
        return;
    }
    assert!(
        found == expected,
        "the module graph has changed; to write it into ARCHITECTURE.md: \
         TIDY_WRITE=1 cargo test --release --test tidy architecture_has_the_graph\n{expected}"
    );
}

/// The modules, each after those that it uses.
fn table(graph: &Graph) -> String {
    let mut table = "| module | uses |\n|---|---|\n".to_owned();
    let mut written = BTreeSet::new();
    while written.len() < graph.len() {
        let is_next = |(module, uses): &(&String, &BTreeSet<String>)| {
            !written.contains(*module) && uses.iter().all(|used| written.contains(used))
        };
        let Some((module, uses)) = graph.iter().find(is_next) else {
            panic!("modules that know each other: {:?}", cycles(graph))
        };
        let uses: Vec<_> = uses.iter().map(|used| format!("`{used}`")).collect();
        table.push_str(&format!("| `{module}` | {} |\n", uses.join(" ")));
        written.insert(module.clone());
    }
    table
}

/// Which modules below the crate's root name which others.
fn graph(folder: &str) -> Graph {
    let files = files::below(&[folder], &[".rs"]);
    let module = |path: &str| {
        let path = path.strip_prefix(folder).unwrap().trim_start_matches('/');
        path.split('/').next().unwrap().trim_end_matches(".rs").to_owned()
    };
    let is_root = |module: &String| module == "lib" || module == "main";
    let mut graph = Graph::new();
    for file in &files {
        let module = module(&file.path);
        if !is_root(&module) {
            graph.entry(module).or_default();
        }
    }
    for file in &files {
        let is_test = file.path.ends_with("/tests.rs") || file.path.contains("/tests/");
        let from = module(&file.path);
        if is_test || is_root(&from) {
            continue;
        }
        let code: String = scan(without_tests(&file.text))
            .into_iter()
            .filter(|piece| piece.kind == Kind::Code)
            .map(|piece| piece.text)
            .collect();
        let used =
            named(&code).into_iter().filter(|used| *used != from && graph.contains_key(used));
        let used: Vec<String> = used.collect();
        graph.get_mut(&from).unwrap().extend(used);
    }
    graph
}

/// What stands after `crate::`, also in braces.
fn named(code: &str) -> BTreeSet<String> {
    let word = |text: &str| -> String {
        text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let mut named = BTreeSet::new();
    for (at, found) in code.match_indices("crate::") {
        let rest = &code[at + found.len()..];
        let Some(group) = rest.strip_prefix('{') else {
            named.insert(word(rest));
            continue;
        };
        let (mut depth, mut is_start) = (0, true);
        for (at, c) in group.char_indices() {
            match c {
                '}' if depth == 0 => break,
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => is_start = true,
                c if is_start && c.is_alphabetic() => {
                    named.insert(word(&group[at..]));
                    is_start = false;
                }
                _ => {}
            }
        }
    }
    named
}

/// Modules that reach themselves.
fn cycles(graph: &Graph) -> Vec<&String> {
    let reaches_itself = |module: &&String| {
        let mut seen = BTreeSet::new();
        let mut next: Vec<&String> = graph[*module].iter().collect();
        while let Some(at) = next.pop() {
            if at == *module {
                return true;
            }
            if seen.insert(at) {
                next.extend(&graph[at]);
            }
        }
        false
    };
    graph.keys().filter(reaches_itself).collect()
}

#[test]
fn names_after_crate() {
    let code = "use crate::a::B; use crate::{c::{D, e}, f}; crate::g!(); super::h();";
    assert_eq!(named(code), ["a", "c", "f", "g"].map(str::to_owned).into());
}
