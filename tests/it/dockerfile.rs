//! The Dockerfile, without containers: what it copies and makes is what Cargo wants.

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

// Cargo refuses a manifest that names a target without a file, also one that nobody builds.
#[test]
fn every_target_of_the_manifest_has_its_stub() {
    let instructions = instructions();
    let stubs = instructions.iter().find(|line| line.contains("A stub")).expect("no stubs");
    let (stubs, build) = stubs.split_once("&& cargo build").expect("stubs without a build");
    assert!(build.contains("--locked --bin postrider"), "{build}");
    let folder = tempfile::tempdir().unwrap();
    for name in ["Cargo.toml", "Cargo.lock"] {
        std::fs::write(folder.path().join(name), repository_file(name)).unwrap();
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

/// The targets of a manifest as Cargo understands it, with their files.
fn targets(folder: &Path) -> BTreeMap<String, PathBuf> {
    let cargo = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--locked", "--no-deps", "--format-version=1"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&cargo.stdout).unwrap();
    let targets = metadata["packages"][0]["targets"].as_array().unwrap();
    let target = |target: &serde_json::Value| {
        let name = format!("{} {}", target["kind"][0], target["name"]);
        (name, PathBuf::from(target["src_path"].as_str().unwrap()))
    };
    targets.iter().map(target).collect()
}

/// The compiler's own list of what the library, and with it the program, was made of last.
fn files_of_the_library() -> Vec<PathBuf> {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let lists = folder.read_dir().unwrap().flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        (name.starts_with("postrider-") && name.ends_with(".d")).then_some(())?;
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
    let files = files_of_the_library();
    assert!(files.len() > 100, "this would not test much: {files:?}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().unwrap();
    for file in files {
        let file = root.join(file).canonicalize().unwrap();
        let file = file.strip_prefix(&root).unwrap();
        let is_copied = copied.iter().any(|folder| file.starts_with(folder));
        assert!(is_copied, "{} is not copied", file.display());
    }
}
