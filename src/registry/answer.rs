//! What a registry's answer means. No I/O.
//!
//! Registries report errors as JSON with a code of five digits, of which the first three are those
//! of the status: <https://docs.confluent.io/platform/current/schema-registry/develop/api.html>. An
//! error without such a code comes from something else: a proxy, another server, another path. It
//! says nothing about the subject.

use postrider_core::envelope::Schema;
use serde::Deserialize;

use super::error::LookupError;

/// What a registry says about a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// Its newest schema.
    Schema(Schema),
    /// It has none.
    Unknown,
    /// The registry does not accept its name; the status.
    Refused(u16),
}

/// The newest version of a subject.
#[derive(Deserialize)]
struct Latest {
    id: u32,
    guid: Option<String>,
}

#[derive(Deserialize)]
struct Failure {
    error_code: u32,
}

/// Reads an answer about a subject.
pub(super) fn read(status: u16, body: &[u8]) -> Result<Answer, LookupError> {
    if status == 200 {
        let latest: Latest = serde_json::from_slice(body).map_err(|_| LookupError::NotARegistry)?;
        let guid = latest.guid.as_deref().and_then(guid);
        return Ok(Answer::Schema(Schema { id: latest.id, guid }));
    }
    let code = serde_json::from_slice(body).ok().map(|Failure { error_code }| error_code);
    let is_about_subject = code.is_some_and(|code| code / 100 == u32::from(status));
    match status {
        404 if is_about_subject => Ok(Answer::Unknown),
        400 | 422 if is_about_subject => Ok(Answer::Refused(status)),
        _ => Err(LookupError::Status(status)),
    }
}

fn guid(text: &str) -> Option<[u8; 16]> {
    let digits = text.replace('-', "");
    let is_guid = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_guid {
        return None;
    }
    u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: u16, body: &str, expect: Result<Answer, &str>) {
        let read = read(status, body.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(read, expect.map_err(str::to_owned), "{status} {body}");
    }

    #[test]
    fn answers() {
        let of = |id, guid| Ok(Answer::Schema(Schema { id, guid }));
        let bytes = [
            0x89, 0x79, 0x1d, 0x2c, 0xe6, 0xa4, 0x5f, 0x6f, 0x8e, 0x21, 0xb6, 0x0a, 0x6e, 0xc1,
            0x1d, 0xcf,
        ];
        let guid = "89791d2c-e6a4-5f6f-8e21-b60a6ec11dcf";
        let full = format!(
            r#"{{"subject":"s","version":3,"id":7,"guid":"{guid}","schemaType":"JSON","schema":"{{}}"}}"#
        );
        check(200, &full, of(7, Some(bytes)));
        check(200, r#"{"id":4294967295,"guid":null}"#, of(u32::MAX, None));
        check(200, r#"{"id":1,"guid":"+9791d2ce6a45f6f8e21b60a6ec11dcf"}"#, of(1, None));
        check(200, r#"{"id":1,"guid":"short"}"#, of(1, None));
        check(
            404,
            r#"{"error_code":40401,"message":"Subject 's' not found."}"#,
            Ok(Answer::Unknown),
        );
        check(404, r#"{"error_code":40402,"message":"Version not found."}"#, Ok(Answer::Unknown));
        check(422, r#"{"error_code":42201}"#, Ok(Answer::Refused(422)));
    }

    #[test]
    fn what_is_not_about_the_subject() {
        let no_registry = Err("its answer is not that of a schema registry");
        for garbage in ["", "<html>", "{}", "[]", r#"{"id":-1}"#, r#"{"id":"7"}"#] {
            check(200, garbage, no_registry);
        }
        for (status, body) in [
            (404, "<html>"),
            (404, r#"{"error_code":404,"message":"HTTP 404 Not Found"}"#),
            (400, "The plain HTTP request was sent to HTTPS port"),
            (401, r#"{"error_code":40101}"#),
            (403, r#"{"error_code":40301}"#),
            (301, ""),
            (500, r#"{"error_code":50001}"#),
        ] {
            check(status, body, Err(&format!("it answers with status {status}")));
        }
    }
}
