//! Which address a request counts against.

mod forwarded;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tollgate_config::{ClientIp, ClientIpFrom};

use crate::request::Request;

/// A client address, or the part of it that counts as one client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// An IPv4 address, or the first bits of an IPv6 address (the rest is 0).
    Ip(IpAddr),
    /// What the proxy said instead of an address, such as the name of an internal listener.
    Other(Vec<u8>),
}

impl Address {
    /// The address of a request. `source` is the address the proxy established; what trusted proxies wrote
    /// falls back to it where their entry is missing or unreadable.
    ///
    /// Entries are counted from the right: nothing to the left of the one that is wanted, which is the
    /// client's own word, is read at all.
    #[must_use]
    pub fn of(config: &ClientIp, request: &Request, source: &[u8]) -> Self {
        let told = match config.from {
            ClientIpFrom::Connection => None,
            ClientIpFrom::XForwardedFor(hops) => {
                let lines = request.values("x-forwarded-for").rev();
                let mut entries = lines.flat_map(|line| line.rsplit(|b| *b == b','));
                entries.nth(before(hops)).and_then(entry)
            }
            ClientIpFrom::Forwarded(hops) => {
                let lines = request.values("forwarded").rev();
                let mut elements = lines.flat_map(forwarded::elements);
                let node = elements.nth(before(hops)).and_then(forwarded::node);
                node.and_then(|node| parse(&node))
            }
        };
        match told.or_else(|| entry(source)) {
            Some(ip) => Self::Ip(masked(ip, config.ipv6_prefix)),
            None => Self::Other(source.to_vec()),
        }
    }

    /// Bytes that no other address has.
    #[must_use]
    pub fn key(&self) -> Vec<u8> {
        match self {
            Self::Ip(IpAddr::V4(ip)) => [b"4".as_slice(), &ip.octets()].concat(),
            Self::Ip(IpAddr::V6(ip)) => [b"6".as_slice(), &ip.octets()].concat(),
            Self::Other(text) => [b"?", text.as_slice()].concat(),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => write!(f, "{ip}"),
            Self::Other(text) => write!(f, "{:?}", String::from_utf8_lossy(text)),
        }
    }
}

/// How many entries come before that of the outermost trusted proxy.
const fn before(hops: u32) -> usize {
    hops.saturating_sub(1) as usize
}

/// Reads an address that stands alone, in quotes or without.
fn entry(text: &[u8]) -> Option<IpAddr> {
    let text = text.trim_ascii();
    let inside = text.strip_prefix(b"\"").and_then(|t| t.strip_suffix(b"\""));
    parse(inside.unwrap_or(text))
}

/// Reads `1.2.3.4`, `1.2.3.4:80`, `::1`, `[::1]`, `[::1]:80`, each IPv6 with or without a zone. A port may
/// be obfuscated (RFC 7239, section 6.3).
fn parse(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            let port = after.strip_prefix(':');
            if port.is_none() && !after.is_empty() {
                return None;
            }
            (host, port)
        }
        None => match text.split_once(':') {
            // An IPv6 address has more than one colon.
            Some((host, port)) if !port.contains(':') => (host, Some(port)),
            _ => (text, None),
        },
    };
    if !port.is_none_or(is_port) {
        return None;
    }
    // A zone tells the proxy's links apart, not clients.
    let ip = match host.split_once('%') {
        Some((address, _zone)) => IpAddr::V6(address.parse().ok()?),
        None => host.parse().ok()?,
    };
    Some(canonical(ip))
}

fn is_port(text: &str) -> bool {
    match text.strip_prefix('_') {
        Some(hidden) => !hidden.is_empty() && hidden.bytes().all(is_obfuscated),
        None => text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u16>().is_ok(),
    }
}

const fn is_obfuscated(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}

/// The IPv4 address that an IPv6 address stands for: mapped (RFC 4291, section 2.5.5.2), or translated under the
/// well-known prefix `64:ff9b::/96` (RFC 6052). As IPv6 all of them would be one client.
fn canonical(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(v6) => match v6.octets() {
            [0x00, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d] => {
                Ipv4Addr::new(a, b, c, d).into()
            }
            _ => v6.into(),
        },
        v4 => v4,
    }
}

fn masked(ip: IpAddr, prefix: u8) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(ip) => {
            let host_bits = 128 - u32::from(prefix.min(128));
            let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & mask))
        }
    }
}

#[cfg(test)]
mod tests;
