//! Lists of statuses: `hold_on` of a route, `count` of a throttle.

use crate::reader::{At, Reader};

/// What statuses may be, in words for each error.
pub(super) struct Bounds {
    /// The lowest and the highest.
    pub(super) between: (u16, u16),
    /// What one of them is.
    pub(super) one: &'static str,
    /// What the list is.
    pub(super) list: &'static str,
}

/// The statuses in order, each once.
pub(super) fn read(reader: &mut Reader<'_>, at: &At<'_>, bounds: &Bounds) -> Option<Vec<u16>> {
    let mut statuses: Vec<u16> = Vec::new();
    reader.list(at, bounds.list, |reader, at| {
        let status = reader.whole_between(at, bounds.between, bounds.one)?;
        if statuses.contains(&status) {
            let message = format!("found {status} again, expected each status once");
            reader.error(&at.path, message);
        }
        statuses.push(status);
        Some(())
    })?;
    statuses.sort_unstable();
    Some(statuses)
}
