//! Every file of `examples/` and every YAML block of the reference is a test.

use std::{fs, path::Path};

use super::{json, no_env, protobuf};
use crate::{Config, ConfigErrors, tree::Node};

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

#[test]
fn examples_of_the_reference_are_valid() {
    let reference = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/configuration.md");
    let reference = fs::read_to_string(reference).unwrap();
    let blocks: Vec<&str> = reference
        .split("```yaml\n")
        .skip(1)
        .map(|rest| rest.split_once("```").unwrap().0)
        .collect();
    assert!(blocks.len() >= 5, "where are the examples?");
    for block in blocks {
        if let Err(errors) = every_way("the reference", block) {
            panic!("{block}\n{errors}");
        }
    }
}
