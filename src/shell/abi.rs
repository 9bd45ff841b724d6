//! The one call of the ABI that is made here and not by the SDK: it hands over the request's headers
//! as they are, where the SDK would copy each name and value into memory of its own, and stop the
//! virtual machine at a name that is not UTF-8. `docs/adr/0006-headers-in-one-piece.md` says why.

#![allow(unsafe_code)]

use proxy_wasm::types::{MapType, Status};

#[link(wasm_import_module = "env")]
unsafe extern "C" {
    fn proxy_get_header_map_pairs(
        map_type: MapType,
        return_map_data: *mut *mut u8,
        return_map_size: *mut usize,
    ) -> Status;
}

/// The fields of a map, serialised; none where the host has none.
pub(super) fn map(map: MapType) -> Vec<u8> {
    let mut data = std::ptr::null_mut();
    let mut size = 0;
    // SAFETY: both point to places of the types that the host writes.
    let status = unsafe { proxy_get_header_map_pairs(map, &mut data, &mut size) };
    if !matches!(status, Status::Ok) || data.is_null() {
        return Vec::new();
    }
    // SAFETY: the host allocated these bytes by the SDK's `proxy_on_memory_allocate`, which gives away
    // a `Vec<u8>` of exactly this capacity, and filled them.
    unsafe { Vec::from_raw_parts(data, size, size) }
}
