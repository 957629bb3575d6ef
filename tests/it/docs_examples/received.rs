//! Records in the form in which pages show them.

use postrider::internals::partition_of;
use prost_reflect::{DescriptorPool, DynamicMessage, Value};

use super::page::{self, RecordShown};
use testkit::consumer::Received;

/// What a page calls a value that it shows field by field.
const ENVELOPE: &str = "postrider.v1.Envelope ";

/// Whether a record is what a page shows.
pub(super) fn matches(shown: &RecordShown, record: &Received, partitions: usize) -> bool {
    let partition = match shown.partition.strip_prefix("murmur2(") {
        Some(text) => partition_of(text.trim_end_matches(')').as_bytes(), partitions),
        // Without a key it can be in any partition.
        None => shown.partition.parse().unwrap_or(record.partition),
    };
    let headers = record.headers.iter().map(|(name, value)| (name.clone(), text(value.as_deref())));
    let headers: Vec<_> = headers.collect();
    let same_header = |(shown, found): (&(String, String), &(String, String))| {
        shown.0 == found.0 && page::matches(&shown.1, &found.1)
    };
    shown.topic == record.topic
        && partition == record.partition
        && shown.key == text(record.key.as_deref())
        && shown.headers.len() == headers.len()
        && shown.headers.iter().zip(&headers).all(same_header)
        && value_matches(&shown.value, record.value.as_deref())
}

fn value_matches(shown: &str, value: Option<&[u8]>) -> bool {
    match (shown.strip_prefix(ENVELOPE), value) {
        (Some(shown), Some(value)) => {
            let bare = |text: &str| text.replace(' ', "");
            page::matches(&bare(shown), &bare(&fields(&envelope(value))))
        }
        _ => page::matches(shown, &text(value)),
    }
}

/// For a message about a record that was not expected.
pub(super) fn show(record: &Received) -> String {
    let mut lines = vec![
        format!("topic      {}", record.topic),
        format!("partition  {}", record.partition),
        format!("key        {}", text(record.key.as_deref())),
    ];
    for (name, value) in &record.headers {
        lines.push(format!("header     {name}: {}", text(value.as_deref())));
    }
    lines.push(format!("value      {}", text(record.value.as_deref())));
    lines.join("\n") + "\n"
}

/// UTF-8 as it is, and other bytes and control characters as `\x00`.
fn text(bytes: Option<&[u8]>) -> String {
    let Some(bytes) = bytes else { return "NULL".to_owned() };
    let mut shown = String::new();
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\0'..'\x20' => shown.push_str(&format!("\\x{:02x}", u32::from(char))),
                char => shown.push(char),
            }
        }
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown
}

fn envelope(value: &[u8]) -> DynamicMessage {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
    let descriptors = protox::compile(["postrider/v1/envelope.proto"], [folder]).unwrap();
    let pool = DescriptorPool::from_file_descriptor_set(descriptors).unwrap();
    let contract = pool.get_message_by_name("postrider.v1.Envelope").unwrap();
    DynamicMessage::decode(contract, value).unwrap()
}

/// In the form of protobuf's text format.
fn fields(message: &DynamicMessage) -> String {
    let field = |name: &str, value: &Value| match value {
        Value::Message(message) => format!("{name} {}", fields(message)),
        Value::String(text) => format!("{name}: {text:?}"),
        Value::Bytes(bytes) => format!("{name}: {:?}", String::from_utf8_lossy(bytes)),
        Value::I32(number) => format!("{name}: {number}"),
        Value::I64(number) => format!("{name}: {number}"),
        Value::U64(number) => format!("{name}: {number}"),
        other => panic!("a field of another kind: {other:?}"),
    };
    let mut set: Vec<_> = message.fields().collect();
    set.sort_by_key(|(descriptor, _)| descriptor.number());
    let set: Vec<_> = set.iter().map(|(it, value)| field(it.name(), value)).collect();
    format!("{{ {} }}", set.join(" "))
}
