//! The hash that Java producers choose partitions by (`org.apache.kafka.common.utils.Utils`).

const SEED: u32 = 0x9747_b28c;
const M: u32 = 0x5bd1_e995;

fn murmur2(bytes: &[u8]) -> u32 {
    // Longer keys can't be sent.
    let mut hash = SEED ^ (bytes.len() as u32);
    let (words, tail) = bytes.as_chunks::<4>();
    for &word in words {
        let mut k = u32::from_le_bytes(word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !tail.is_empty() {
        for (index, &byte) in tail.iter().enumerate() {
            hash ^= u32::from(byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// Where a Java producer puts this key, in a topic with this many partitions.
pub fn partition_of(key: &[u8], partitions: usize) -> i32 {
    let partitions = i32::try_from(partitions).unwrap_or(i32::MAX).max(1);
    (murmur2(key).cast_signed() & i32::MAX) % partitions
}

#[cfg(test)]
mod tests {
    use super::*;

    // The vectors of Kafka's own UtilsTest.testMurmur2.
    #[test]
    fn hashes_as_java_does() {
        for (text, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(text.as_bytes()).cast_signed(), hash, "{text}");
        }
    }
}
