//! The Dockerfile without containers: it copies and creates what Cargo needs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compose::file::repository_file;

/// The Dockerfile's instructions, each on one line.
fn instructions() -> Vec<String> {
    let joined = repository_file("Dockerfile").replace("\\\n", " ");
    let lines = joined.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

/// The files copied before the stubs are created: the manifests.
fn manifests(instructions: &[String]) -> Vec<(PathBuf, PathBuf)> {
    let copies = instructions.iter().take_while(|line| !line.contains("A stub"));
    let copies = copies.filter_map(|line| line.strip_prefix("COPY "));
    copies
        .flat_map(|line| {
            let mut paths: Vec<&str> = line.split_whitespace().collect();
            let folder = paths.pop().unwrap();
            paths.into_iter().map(move |path| {
                (path.into(), Path::new(folder).join(Path::new(path).file_name().unwrap()))
            })
        })
        .collect()
}

// Cargo refuses a manifest with a target whose file is missing, even if it is not built.
#[test]
fn every_target_of_the_manifest_has_its_stub() {
    let instructions = instructions();
    let stubs = instructions.iter().find(|line| line.contains("A stub")).expect("no stubs");
    let (stubs, build) = stubs.split_once("&& cargo build").expect("stubs without a build");
    assert!(build.contains("--locked --bin postrider"), "{build}");
    let folder = tempfile::tempdir().unwrap();
    let manifests = manifests(&instructions);
    assert!(manifests.len() > 4, "this would not test much: {manifests:?}");
    for (from, to) in manifests {
        let to = folder.path().join(to);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::write(to, repository_file(from.to_str().unwrap())).unwrap();
    }
    let shell = stubs.strip_prefix("RUN ").unwrap();
    let made = Command::new("sh").args(["-ec", shell]).current_dir(folder.path()).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for (target, file) in targets(folder.path()) {
        assert!(file.exists(), "no stub for {target}: {}", file.display());
    }
    let names = |folder: &Path| targets(folder).into_keys().collect::<Vec<_>>();
    assert_eq!(names(folder.path()), names(Path::new(env!("CARGO_MANIFEST_DIR"))));
}

/// The targets of a workspace according to Cargo, with their files.
fn targets(folder: &Path) -> BTreeMap<String, PathBuf> {
    let cargo = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--locked", "--no-deps", "--format-version=1"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&cargo.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let targets = packages.iter().flat_map(|package| package["targets"].as_array().unwrap());
    let target = |target: &serde_json::Value| {
        let name = format!("{} {}", target["kind"][0], target["name"]);
        (name, PathBuf::from(target["src_path"].as_str().unwrap()))
    };
    targets.map(target).collect()
}

/// The compiler's own list of the files that this package was last built from.
fn files_of_the_library(library: &str) -> Vec<PathBuf> {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let lists = folder.read_dir().unwrap().flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        (name.starts_with(&format!("{library}-")) && name.ends_with(".d")).then_some(())?;
        let text = std::fs::read_to_string(entry.path()).ok()?;
        let rule = text.lines().find(|line| line.contains(".rlib: "))?.to_owned();
        Some((entry.metadata().ok()?.modified().ok()?, rule))
    });
    let (_, rule) = lists.max().expect("the library was not built here");
    let (_, files) = rule.split_once(": ").unwrap();
    files.split_whitespace().map(PathBuf::from).collect()
}

#[test]
fn every_file_of_the_program_is_copied() {
    let copied: Vec<String> = instructions()
        .iter()
        .filter_map(|line| line.strip_prefix("COPY "))
        .filter(|line| !line.starts_with("--from"))
        .flat_map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let files: Vec<PathBuf> = ["postrider", "postrider_core", "postrider_outbox"]
        .iter()
        .flat_map(|library| files_of_the_library(library))
        .collect();
    assert!(files.len() > 100, "this would not test much: {files:?}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().unwrap();
    for file in files {
        let file = root.join(file).canonicalize().unwrap();
        let file = file.strip_prefix(&root).unwrap();
        let is_copied = copied.iter().any(|folder| file.starts_with(folder));
        assert!(is_copied, "{} is not copied", file.display());
    }
}
