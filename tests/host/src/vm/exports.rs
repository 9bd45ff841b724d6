//! The guest's exports, resolved once.

use wasmi::{Instance, Store, TypedFunc, WasmParams, WasmResults};

use crate::state::State;

/// One export; without a function the guest does not have it.
pub(super) struct Export<P, R> {
    pub(super) name: &'static str,
    pub(super) func: Option<TypedFunc<P, R>>,
}

impl<P, R> Copy for Export<P, R> {}

impl<P, R> Clone for Export<P, R> {
    fn clone(&self) -> Self {
        *self
    }
}

/// Every callback of the ABI that this host plays. Arguments start with the context.
pub(super) struct Exports {
    pub(super) allocate: Option<TypedFunc<u32, u32>>,
    pub(super) initialize: Export<(), ()>,
    pub(super) context_create: Export<(u32, u32), ()>,
    pub(super) vm_start: Export<(u32, u32), u32>,
    pub(super) configure: Export<(u32, u32), u32>,
    pub(super) tick: Export<u32, ()>,
    pub(super) queue_ready: Export<(u32, u32), ()>,
    pub(super) call_response: Export<(u32, u32, u32, u32, u32), ()>,
    pub(super) request_headers: Export<(u32, u32, u32), u32>,
    pub(super) request_body: Export<(u32, u32, u32), u32>,
    pub(super) response_headers: Export<(u32, u32, u32), u32>,
    pub(super) response_body: Export<(u32, u32, u32), u32>,
    pub(super) done: Export<u32, u32>,
    pub(super) log: Export<u32, ()>,
    pub(super) delete: Export<u32, ()>,
}

impl Exports {
    /// # Panics
    ///
    /// If an export of a known name has another type than the ABI's.
    pub(super) fn of(store: &Store<State>, instance: &Instance) -> Self {
        let initialize = find(store, instance, "_initialize");
        let allocate = find(store, instance, "proxy_on_memory_allocate");
        Self {
            allocate: allocate
                .func
                .or_else(|| find(store, instance, "malloc").func),
            initialize: match initialize.func {
                Some(_) => initialize,
                None => find(store, instance, "_start"),
            },
            context_create: find(store, instance, "proxy_on_context_create"),
            vm_start: find(store, instance, "proxy_on_vm_start"),
            configure: find(store, instance, "proxy_on_configure"),
            tick: find(store, instance, "proxy_on_tick"),
            queue_ready: find(store, instance, "proxy_on_queue_ready"),
            call_response: find(store, instance, "proxy_on_http_call_response"),
            request_headers: find(store, instance, "proxy_on_request_headers"),
            request_body: find(store, instance, "proxy_on_request_body"),
            response_headers: find(store, instance, "proxy_on_response_headers"),
            response_body: find(store, instance, "proxy_on_response_body"),
            done: find(store, instance, "proxy_on_done"),
            log: find(store, instance, "proxy_on_log"),
            delete: find(store, instance, "proxy_on_delete"),
        }
    }
}

fn find<P: WasmParams, R: WasmResults>(
    store: &Store<State>,
    instance: &Instance,
    name: &'static str,
) -> Export<P, R> {
    let func = instance.get_func(store, name).map(|func| {
        func.typed(store)
            .unwrap_or_else(|error| panic!("the guest's {name}: {error}"))
    });
    Export { name, func }
}
