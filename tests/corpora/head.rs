//! Bytes as the head of a request: a field a line, its value after the first colon that is not the
//! name's own first character (`:path:/v1`).
//!
//! A value may hold any bytes: `\n` (two characters) stands for a line feed.

use tollgate_filter::request::Request;

/// The field that stands for the address the proxy established.
const SOURCE: &str = "@source";

/// The request in these bytes.
pub fn request(bytes: &[u8]) -> Request {
    Request::new(fields(bytes))
}

/// Its fields.
pub fn fields(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.filter(|line| !line.is_empty()).map(field).collect()
}

/// The address the proxy established for it.
pub fn source(request: &Request) -> Vec<u8> {
    request.first(SOURCE).to_vec()
}

/// A property of the proxy: the first field named after the path's last segment.
pub fn property(request: &Request, path: &[String]) -> Option<Vec<u8>> {
    let name = format!("@{}", path.last()?);
    request.values(&name).next().map(<[u8]>::to_vec)
}

fn field(line: &[u8]) -> (String, Vec<u8>) {
    let own = line.iter().skip(1).position(|byte| *byte == b':');
    let end = own.map_or(line.len(), |at| at + 1);
    let name = String::from_utf8_lossy(&line[..end]).into_owned();
    let value = line.get(end + 1..).unwrap_or_default();
    (name, unescaped(value))
}

fn unescaped(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((byte, after)) = rest.split_first() {
        rest = match (byte, after) {
            (b'\\', [b'n', after @ ..]) => {
                out.push(b'\n');
                after
            }
            _ => {
                out.push(*byte);
                after
            }
        };
    }
    out
}
