//! What the fuzz targets assert, on their seeds and on mutations of them: the same every time, and
//! without a fuzzer. A mutation that fails is worth a seed of its own in `tests/corpora/seeds/`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use fastrand::Rng;

#[path = "corpora/targets.rs"]
mod targets;

/// Mutations of each target's seeds.
const MUTATIONS: u32 = 20_000;

/// What parsers stumble over.
const WORDS: [&[u8]; 34] = [
    b"\n",
    b"\r\n",
    b"\\n",
    b"\0",
    b"\xff",
    b"\xc3\x28",
    b"%",
    b"%2",
    b"%2F",
    b"%2e%2e/",
    b"//",
    b"/..",
    b"?",
    b"#",
    b"&from=",
    b"&to=2025-01-01",
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"${",
    b"${SET:-",
    b":-",
    b"1e309",
    b"-1",
    b"18446744073709551616",
    b"\x12\x0a",
    b"x-tollgate-:",
    b"x-tenant-id:t\n",
    b"&client_id=b",
    b";Client.Id=b",
    b"\"client_id\":\"b\",",
    b"authorization:Basic YTpi\n",
];

fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpora/seeds");
    let files = std::fs::read_dir(folder.join(target)).unwrap();
    let read = |file: std::io::Result<std::fs::DirEntry>| {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        (name, std::fs::read(file.path()).unwrap())
    };
    let mut seeds: Vec<_> = files.map(read).collect();
    seeds.sort();
    assert!(!seeds.is_empty(), "no seeds for {target}");
    seeds
}

fn mutate(input: &mut Vec<u8>, other: &[u8], random: &mut Rng) {
    let at = random.usize(..=input.len());
    let end = (at + random.usize(..=16)).min(input.len());
    match random.u8(..8) {
        0 | 1 if at < input.len() => input[at] ^= 1 << random.u8(..8),
        2 if at < input.len() => input[at] = random.u8(..),
        3 => drop(input.drain(at..end)),
        4 => {
            let copied = input[at..end].to_vec();
            let to = random.usize(..=input.len());
            input.splice(to..to, copied);
        }
        5 => {
            let from = random.usize(..=other.len());
            input.truncate(at);
            input.extend(&other[from..]);
        }
        6 => drop(input.splice(at..at, std::iter::repeat_with(|| random.u8(..)).take(8))),
        _ => drop(input.splice(at..at, random.choice(WORDS).unwrap().iter().copied())),
    }
}

fn play(target: targets::Target, input: &[u8], what: &str) {
    let (name, run) = target;
    if catch_unwind(AssertUnwindSafe(|| run(input))).is_err() {
        panic!("{name}: {what} fails: b\"{}\"", input.escape_ascii());
    }
}

fn play_all(target: targets::Target) {
    let seeds = seeds(target.0);
    for (name, seed) in &seeds {
        play(target, seed, name);
    }
    let mut random = Rng::with_seed(0x7011_6a7e);
    for mutation in 0..MUTATIONS {
        let (name, seed) = &seeds[random.usize(..seeds.len())];
        let (_, other) = &seeds[random.usize(..seeds.len())];
        let mut input = seed.clone();
        for _ in 0..random.u8(1..=6) {
            mutate(&mut input, other, &mut random);
        }
        play(target, &input, &format!("mutation {mutation} of {name}"));
    }
}

#[test]
fn any_configuration_is_read_or_refused() {
    play_all(targets::ALL[0]);
}

#[test]
fn any_request_has_one_path_and_one_price() {
    play_all(targets::ALL[1]);
}

#[test]
fn any_identity_is_safe_or_refused() {
    play_all(targets::ALL[2]);
}

#[test]
fn any_page_keeps_its_size_and_its_word() {
    play_all(targets::ALL[3]);
}

#[test]
fn any_refusal_is_a_document() {
    play_all(targets::ALL[4]);
}

#[test]
fn any_resource_is_safe_or_refused() {
    play_all(targets::ALL[5]);
}

#[test]
fn any_subject_is_hashed_or_refused() {
    play_all(targets::ALL[6]);
}
