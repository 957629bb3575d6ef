//! `postrider migrate`

use std::io::Write;

use postrider::config::Config;

use super::{DONE, FAILED, OPERATOR, complain, no_runtime, runtime};

pub(super) fn migrate(config: Config) -> u8 {
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return no_runtime(&error),
    };
    match runtime.block_on(postrider::migrate::migrate(&config)) {
        Ok(report) => {
            // Not println!: it would panic if a pager or `head` has closed the pipe.
            let _ = writeln!(std::io::stdout(), "{report}");
            DONE
        }
        Err(error) => {
            complain(&error, Some(&error.fix()));
            if error.needs_operator() { OPERATOR } else { FAILED }
        }
    }
}
