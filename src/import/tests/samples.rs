//! Whole files of every form, with what becomes of them.

use std::fs;
use std::path::PathBuf;

use super::imported;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/import");

/// The files without those that have what is expected of them.
fn samples() -> Vec<PathBuf> {
    let files = fs::read_dir(FOLDER).unwrap().map(|file| file.unwrap().path());
    let is_sample = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        !["toml", "report"].contains(&ending)
    };
    let samples: Vec<PathBuf> = files.filter(is_sample).collect();
    assert!(samples.len() > 8, "{samples:?}");
    samples
}

/// With `IMPORT_WRITE` set, what is expected is written instead.
#[test]
fn files_become_what_stands_next_to_them() {
    for sample in samples() {
        let name = sample.file_name().unwrap().to_str().unwrap();
        let (toml, report) = imported(&fs::read_to_string(&sample).unwrap(), name);
        for (ending, found) in [("toml", toml), ("report", report)] {
            let path = sample.with_file_name(format!("{name}.{ending}"));
            if std::env::var_os("IMPORT_WRITE").is_some() {
                fs::write(&path, found).unwrap();
                continue;
            }
            let expected = fs::read_to_string(&path).unwrap_or_default();
            assert!(
                found == expected,
                "{} has changed; to write it: IMPORT_WRITE=1 cargo test --release --lib import\n{found}",
                path.display()
            );
        }
    }
}
