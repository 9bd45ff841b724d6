//! Small guests in the Wasm text format.
//!
//! [`build`] puts a test's functions behind a prelude of imports and helpers. In them `<text>` stands
//! for the address and the length of that text, which may hold `\ff` escapes.

use tollgate_host::{Options, Process, Vm};

const PRELUDE: &str = include_str!("prelude.wat");
/// Texts live here; the allocator starts above, and below are the guest's variables.
const TEXTS: usize = 1024;

/// A module of the prelude, `functions` and the texts they name.
pub(crate) fn build(functions: &str) -> Vec<u8> {
    let mut out = String::from(PRELUDE);
    let mut data = String::new();
    let mut at = TEXTS;
    let mut rest = functions;
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').expect("a closing >");
        let bytes = unescape(&rest[start + 1..end]);
        out += &rest[..start];
        out += &format!("(i32.const {at}) (i32.const {})", bytes.len());
        let hex: String = bytes.iter().map(|byte| format!("\\{byte:02x}")).collect();
        data += &format!("(data (i32.const {at}) \"{hex}\")\n");
        at += bytes.len();
        rest = &rest[end + 1..];
    }
    assert!(at < 4096, "the texts run into the heap");
    out += rest;
    out += &data;
    out += ")";
    wat::parse_str(&out).unwrap_or_else(|error| panic!("{error}"))
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'\\' {
            let hex = std::str::from_utf8(&after[..2]).unwrap();
            bytes.push(u8::from_str_radix(hex, 16).unwrap());
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    bytes
}

/// A process hosting that guest.
pub(crate) fn process(functions: &str, options: Options) -> Process {
    Process::with(&build(functions), options).unwrap()
}

/// A configured VM of that guest, in a process of its own.
pub(crate) fn vm(functions: &str) -> (Process, Vm) {
    let process = process(functions, Options::new());
    let vm = configured(&process);
    (process, vm)
}

/// One more configured VM.
pub(crate) fn configured(process: &Process) -> Vm {
    let mut vm = process.vm().unwrap();
    assert!(vm.configure(b"{}").unwrap());
    vm
}
