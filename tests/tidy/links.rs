//! Links between pages, and from messages to pages, lead somewhere.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::files;
use crate::scan::{Kind, scan};

#[test]
fn links_of_pages() {
    let mut broken = Vec::new();
    for page in files::pages() {
        let folder = Path::new(&page.path).parent().unwrap();
        for (line, target) in targets(&page.text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = match path {
                "" => PathBuf::from(&page.path),
                path => normal(&folder.join(path)),
            };
            if !leads_somewhere(&path, anchor) {
                broken.push(format!("{}:{line}: {target}", page.path));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn pages_that_code_names() {
    let mut broken = Vec::new();
    for file in files::rust() {
        if file.path.starts_with("tests/tidy/") {
            continue;
        }
        for piece in scan(&file.text).into_iter().filter(|piece| piece.kind != Kind::Code) {
            for target in pages(piece.text) {
                let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
                if !leads_somewhere(Path::new(path), anchor) {
                    broken.push(format!("{}:{}: {target}", file.path, piece.line));
                }
            }
        }
    }
    assert!(broken.is_empty(), "pages that are not there:\n{}", broken.join("\n"));
}

/// `docs/page.md` and `docs/page.md#anchor`, as they stand in a text.
fn pages(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("docs/").filter_map(|(at, _)| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "/._-#".contains(c);
        let rest = &text[at..];
        let target = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        let target = target.trim_end_matches('.');
        target.contains(".md").then_some(target)
    })
}

/// Lines and targets of `[text](target)`, code aside.
fn targets(page: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (at, line) in page.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        let ends = line.match_indices("](").map(|(start, _)| &line[start + 2..]);
        found.extend(ends.filter_map(|rest| Some((at + 1, rest.split_once(')')?.0))));
    }
    found
}

fn leads_somewhere(path: &Path, anchor: &str) -> bool {
    let file = files::root().join(path);
    if anchor.is_empty() || path.extension().is_none_or(|extension| extension != "md") {
        return file.exists();
    }
    std::fs::read_to_string(file).is_ok_and(|page| anchors(&page).contains(anchor))
}

/// The anchors that GitHub gives a page's headings.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut is_code = false;
    for line in page.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if is_code || heading == line || !heading.starts_with(' ') {
            continue;
        }
        let heading = heading.trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " _-".contains(*c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let mut numbered = anchor.clone();
        for number in 1.. {
            if anchors.insert(numbered) {
                break;
            }
            numbered = format!("{anchor}-{number}");
        }
    }
    anchors
}

fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                assert!(normal.pop(), "{} leaves the repository", path.display())
            }
            component => normal.push(component),
        }
    }
    normal
}

#[test]
fn anchors_are_those_of_github() {
    let page = "# What `a_b` does: it, \"works\"\n## Same\n## Same\n```\n# not this\n```\n";
    let expected = ["same", "same-1", "what-a_b-does-it-works"].map(str::to_owned);
    assert_eq!(anchors(page), BTreeSet::from(expected));
}
