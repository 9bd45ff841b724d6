//! Whole documents, in each form in which a host hands them over.

mod detect;
mod examples;
mod fields;
mod holds;
mod random;
mod store;
mod throttles;

use prost::Message;
use prost_types::{ListValue, Struct, Value, value::Kind};

use crate::{Config, ConfigErrors, tree::Node};

/// An environment without variables.
fn no_env(_: &str) -> Option<String> {
    None
}

fn parse(text: &str) -> Result<Config, ConfigErrors> {
    Config::parse(text.as_bytes(), &no_env)
}

fn errors(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

/// JSON text of a tree, duplicate keys and all.
fn json(node: &Node) -> String {
    let string = |text: &str| serde_json::to_string(text).unwrap();
    match node {
        Node::Null => "null".to_owned(),
        Node::Bool(value) => value.to_string(),
        Node::Number(value) if value.fract() == 0.0 && value.abs() < 9e15 => {
            (*value as i64).to_string()
        }
        Node::Number(value) => serde_json::to_string(value).unwrap(),
        Node::Text(text) => string(text),
        Node::List(items) => {
            let items: Vec<String> = items.iter().map(json).collect();
            format!("[{}]", items.join(", "))
        }
        Node::Map(pairs) => {
            let pairs: Vec<String> = pairs
                .iter()
                .map(|(key, node)| format!("{}: {}", string(key), json(node)))
                .collect();
            format!("{{{}}}", pairs.join(",\n"))
        }
    }
}

/// Bytes of a tree as a Struct; `None` if a Struct cannot say it.
fn protobuf(node: &Node) -> Option<Vec<u8>> {
    match kind(node)? {
        Kind::StructValue(message) => Some(message.encode_to_vec()),
        _ => None,
    }
}

fn kind(node: &Node) -> Option<Kind> {
    let value = |node: &Node| {
        Some(Value {
            kind: Some(kind(node)?),
        })
    };
    Some(match node {
        Node::Null => Kind::NullValue(0),
        Node::Bool(value) => Kind::BoolValue(*value),
        Node::Number(value) => Kind::NumberValue(*value),
        Node::Text(text) => Kind::StringValue(text.clone()),
        Node::List(items) => Kind::ListValue(ListValue {
            values: items.iter().map(value).collect::<Option<_>>()?,
        }),
        Node::Map(pairs) => {
            let mut message = Struct::default();
            for (key, node) in pairs {
                if message.fields.insert(key.clone(), value(node)?).is_some() {
                    return None;
                }
            }
            Kind::StructValue(message)
        }
    })
}
