//! The ABI's encoding of header maps: a count, the lengths, then names and values each followed by
//! a zero byte. All numbers are 32-bit little-endian.

use crate::Headers;

/// Appends the encoding of `map` to `out`; an empty map is encoded as nothing, as Envoy does.
pub(crate) fn encode(map: &Headers, out: &mut Vec<u8>) {
    if map.is_empty() {
        return;
    }
    let word = |n: usize| (n as u32).to_le_bytes();
    out.extend(word(map.len()));
    for (name, value) in map.iter() {
        out.extend(word(name.len()));
        out.extend(word(value.len()));
    }
    for text in map.iter().flat_map(|(name, value)| [name, value]) {
        out.extend(text);
        out.push(0);
    }
}

/// Reads an encoded map; `None` if the lengths do not fit the bytes.
pub(crate) fn decode(bytes: &[u8]) -> Option<Headers> {
    if bytes.is_empty() {
        return Some(Headers::new());
    }
    let word = |i: usize| {
        let four = bytes.get(i * 4..i * 4 + 4)?;
        Some(u32::from_le_bytes(four.try_into().ok()?) as usize)
    };
    let count = word(0)?;
    let mut at = count.checked_mul(8)?.checked_add(4)?;
    let mut text = |len: usize| {
        let found = bytes.get(at..at.checked_add(len)?)?;
        at += len + 1;
        Some(found)
    };
    let mut headers = Headers::new();
    for i in 0..count {
        let (name, value) = (text(word(1 + i * 2)?)?, text(word(2 + i * 2)?)?);
        headers.push(name, value);
    }
    Some(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_survive_the_round_trip() {
        let map = Headers::from([
            (&b"x-raw"[..], &[0xff, 0xfe, 0x00][..]),
            (b"x-raw", b""),
            (b"", b"v"),
        ]);
        let mut bytes = Vec::new();
        encode(&map, &mut bytes);
        assert_eq!(decode(&bytes), Some(map));
    }

    #[test]
    fn lengths_beyond_the_bytes_are_refused() {
        for bytes in [
            &[1, 0, 0][..],
            &[1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, b'a'],
            &[0xff; 12],
        ] {
            assert_eq!(decode(bytes), None);
        }
    }
}
