//! `store`: where state lives.

use crate::{
    Store, StoreKind,
    reader::{At, Reader},
    units::Bytes,
};

/// `store` where it is not given.
pub(super) const DEFAULT: Store = Store {
    kind: StoreKind::Local,
    memory: Bytes(16 << 20),
};

pub(super) fn read(reader: &mut Reader<'_>, at: &At<'_>) -> Option<Store> {
    let fields = reader.fields(at, &["kind", "memory"])?;
    let kind = fields.optional(reader, "kind", (), |reader, at| {
        reader.choice(at, &[("local", ())])
    });
    let memory = fields.optional(reader, "memory", DEFAULT.memory, Reader::size);
    kind?;
    Some(Store {
        kind: StoreKind::Local,
        memory: memory?,
    })
}
