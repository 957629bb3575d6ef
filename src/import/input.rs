//! The text of the file.

use std::fs::File;
use std::io::{self, Read, stdin};
use std::path::{Path, PathBuf};

use crate::config::{ConfigError, Problem};

/// No connector's configuration is nearly as large.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// What stands for standard input.
const STDIN: &str = "-";

/// The file's name for errors, and its text.
pub(super) fn read(path: &Path) -> Result<(PathBuf, String), ConfigError> {
    if path == Path::new(STDIN) {
        let name = PathBuf::from("standard input");
        let text = text(stdin().lock(), &name)?;
        return Ok((name, text));
    }
    let unreadable = |error: io::Error| {
        wrong(format!("can't read {}: {error}; name a readable file", path.display()))
    };
    let file = File::open(path).map_err(unreadable)?;
    Ok((path.to_owned(), text(file, path)?))
}

fn text(from: impl Read, name: &Path) -> Result<String, ConfigError> {
    let name = name.display();
    let mut bytes = Vec::new();
    // One more byte shows that there are too many.
    if let Err(error) = from.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes) {
        return Err(wrong(format!("can't read {name}: {error}; name a readable file")));
    }
    if u64::try_from(bytes.len()).is_ok_and(|length| length > FILE_BYTES_MAX) {
        return Err(wrong(format!(
            "{name} has more than {FILE_BYTES_MAX} bytes, so it is not the configuration of one \
             connector; name that file"
        )));
    }
    let not_text = |_| wrong(format!("{name} is not UTF-8; save it as UTF-8"));
    let text = String::from_utf8(bytes).map_err(not_text)?;
    // Some editors put a byte order mark first.
    Ok(text.strip_prefix('\u{feff}').map(ToOwned::to_owned).unwrap_or(text))
}

fn wrong(message: String) -> ConfigError {
    ConfigError { problems: vec![Problem::missing(message)] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_read() {
        #[track_caller]
        fn check(bytes: &[u8], expect: Result<&str, &str>) {
            match (text(bytes, Path::new("x")), expect) {
                (Ok(text), Ok(expect)) => assert_eq!(text, expect),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (read, expect) => panic!("{read:?}, not {expect:?}"),
            }
        }
        check(b"a=b", Ok("a=b"));
        check("\u{feff}a=b".as_bytes(), Ok("a=b"));
        check(b"a=\xff", Err("x is not UTF-8"));
        check(&vec![b'#'; 1024 * 1024], Ok(&"#".repeat(1024 * 1024)));
        check(&vec![b'#'; 1024 * 1024 + 1], Err("x has more than 1048576 bytes"));
    }
}
