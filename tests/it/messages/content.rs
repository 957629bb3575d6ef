//! Contents of messages, built without postrider.emit.

/// The 11 values of a message, NULL where there is none.
pub type Values<'a> = [Option<&'a [u8]>; 11];

/// What postrider.emit would write.
pub fn content(values: &Values<'_>) -> Vec<u8> {
    let mut content = vec![1, 0, 11];
    for value in values {
        match value {
            None => content.push(b'n'),
            Some(value) => {
                content.push(b't');
                content.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
                content.extend_from_slice(value);
            }
        }
    }
    content
}

/// An event of this id, topic and payload.
pub fn event(id: &str, topic: &str, payload: &[u8]) -> Vec<u8> {
    let mut values: Values<'_> = [None; 11];
    values[0] = Some(id.as_bytes());
    values[1] = Some(topic.as_bytes());
    values[2] = Some(payload);
    content(&values)
}

/// What postrider.emit_batch would write of these contents.
pub fn pack(contents: &[Vec<u8>]) -> Vec<u8> {
    let mut pack = vec![2];
    for content in contents {
        pack.extend_from_slice(&content[1..]);
    }
    pack
}
