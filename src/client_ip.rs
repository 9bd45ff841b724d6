//! Which address a request counts against.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use tollgate_config::ClientIp;

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
    /// The address of a request. `source` is the address the proxy established; an
    /// `X-Forwarded-For` entry that is missing or unreadable falls back to it.
    #[must_use]
    pub fn of(config: &ClientIp, request: &Request, source: &[u8]) -> Self {
        let forwarded = config.trusted_hops.and_then(|hops| {
            let entries = request.values("x-forwarded-for").rev();
            let mut entries = entries.flat_map(|line| line.rsplit(|b| *b == b','));
            entries.nth(hops.saturating_sub(1) as usize).and_then(parse)
        });
        match forwarded.or_else(|| parse(source)) {
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

/// Reads `1.2.3.4`, `1.2.3.4:80`, `::1`, `[::1]`, `[::1]:80`, each IPv6 with or without a zone.
fn parse(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let text = text.trim_matches('"');
    let host = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        None => match text.split_once(':') {
            Some((host, port)) if !port.contains(':') => {
                port.parse::<u16>().ok()?;
                host
            }
            _ => text,
        },
    };
    let host = host
        .split_once('%')
        .map_or(host, |(address, _zone)| address);
    host.parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
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
