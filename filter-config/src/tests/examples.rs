//! Every file of `examples/` and every configuration in the documentation is a test.

use std::{collections::BTreeSet, fs, path::Path};

use super::{json, no_env, protobuf};
use crate::{Config, ConfigErrors, StoreKind, tree::Node};

fn files(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples")
        .join(folder);
    let mut files: Vec<(String, String)> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        })
        .map(|path| {
            let stem = path.with_extension("").to_str().unwrap().to_owned();
            (stem, fs::read_to_string(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// The lines beside a file; none if there is no such file.
fn beside(stem: &str, extension: &str) -> String {
    fs::read_to_string(format!("{stem}.{extension}"))
        .unwrap_or_default()
        .trim_end()
        .to_owned()
}

/// Reads a document as YAML, as JSON text and as a Struct, which must agree.
fn every_way(name: &str, yaml: &str) -> Result<Config, ConfigErrors> {
    let tree: Node = serde_yaml_ng::from_str(yaml).unwrap();
    let native = Config::deserialize(serde_yaml_ng::Deserializer::from_str(yaml), &no_env);
    let expected = format!("{native:#?}");
    let text = Config::parse(json(&tree).as_bytes(), &no_env);
    assert_eq!(format!("{text:#?}"), expected, "{name} as JSON");
    if let Some(bytes) = protobuf(&tree) {
        let message = Config::parse(&bytes, &no_env);
        assert_eq!(format!("{message:#?}"), expected, "{name} as a Struct");
    }
    native
}

#[test]
fn valid_examples_are_read_with_the_warnings_beside_them() {
    let files = files("valid");
    assert!(files.len() >= 10, "where are the examples?");
    for (stem, yaml) in files {
        let config = every_way(&stem, &yaml).unwrap_or_else(|errors| panic!("{stem}:\n{errors}"));
        let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(warnings.join("\n"), beside(&stem, "warnings.txt"), "{stem}");
    }
}

#[test]
fn invalid_examples_are_refused_with_exactly_the_errors_beside_them() {
    let files = files("invalid");
    assert!(files.len() >= 10, "where are the examples?");
    for (stem, yaml) in files {
        let Err(errors) = every_way(&stem, &yaml) else {
            panic!("{stem} was accepted");
        };
        let expected = beside(&stem, "errors.txt");
        assert!(!expected.is_empty(), "{stem} has no errors.txt");
        assert_eq!(errors.to_string(), expected, "{stem}");
    }
}

/// A fenced block of a document.
struct Block {
    document: String,
    info: String,
    text: String,
}

fn blocks() -> Vec<Block> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let mut blocks = Vec::new();
    for path in fs::read_dir(docs).unwrap().map(|file| file.unwrap().path()) {
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let document = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        // Outside and inside of fences take turns.
        let mut parts = text.split("\n```").skip(1);
        while let Some(inside) = parts.next() {
            assert!(parts.next().is_some(), "{document}: a block is not closed");
            let (info, text) = inside.split_once('\n').unwrap();
            blocks.push(Block {
                document: document.clone(),
                info: info.to_owned(),
                text: text.to_owned(),
            });
        }
    }
    blocks
}

#[test]
fn configurations_of_the_documentation_are_valid() {
    let mut read = Vec::new();
    for block in blocks() {
        match block.info.as_str() {
            "yaml" | "yaml tollgate" => {
                if let Err(errors) = every_way(&block.document, &block.text) {
                    panic!("{}\n{}\n{errors}", block.document, block.text);
                }
                read.push(block.document);
            }
            "yaml cluster" => {}
            info => assert!(
                !info.starts_with("yaml"),
                "this is not read: {}",
                block.text
            ),
        }
    }
    for (document, least) in [
        ("configuration.md", 5),
        ("redis.md", 3),
        ("auth-throttles.md", 5),
    ] {
        let found = read.iter().filter(|name| *name == document).count();
        assert!(found >= least, "where are the examples of {document}?");
    }
}

/// A cluster that no store of the document names, or a store whose cluster is not shown, is a
/// reader's dead end.
#[test]
fn clusters_and_stores_of_the_operators_guide_belong_together() {
    let mut clusters = BTreeSet::new();
    let mut upstreams = BTreeSet::new();
    for block in blocks().iter().filter(|block| block.document == "redis.md") {
        if block.info == "yaml cluster" {
            let cluster: serde_yaml_ng::Value = serde_yaml_ng::from_str(&block.text).unwrap();
            let name = cluster["name"].as_str().unwrap();
            let endpoints = &cluster["load_assignment"];
            assert_eq!(endpoints["cluster_name"].as_str(), Some(name));
            assert!(endpoints["endpoints"].is_sequence(), "{name}");
            assert!(cluster["connect_timeout"].is_string(), "{name}");
            clusters.insert(name.to_owned());
        } else if block.info.starts_with("yaml") {
            let config = every_way(&block.document, &block.text).unwrap();
            assert!(config.warnings.is_empty(), "{}", block.text);
            if let StoreKind::Redis(redis) = config.store.kind {
                upstreams.insert(redis.upstream);
            }
        }
    }
    assert!(clusters.len() >= 2, "where are the clusters?");
    assert_eq!(clusters, upstreams);
}

#[test]
fn json_of_the_documentation_is_json() {
    for block in blocks()
        .iter()
        .filter(|block| block.info.starts_with("json"))
    {
        let read = serde_json::from_str::<serde_json::Value>(&block.text);
        assert!(read.is_ok(), "{}\n{read:?}", block.text);
    }
}
