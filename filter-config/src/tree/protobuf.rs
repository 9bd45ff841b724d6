//! The tree of a serialized `google.protobuf.Struct`, which is how Envoy hands over native YAML.

use prost::{DecodeError, Message};
use prost_types::{Struct, value::Kind};

use super::Node;

/// Reads the bytes of a Struct. Depth is bounded by the decoder's own limit of 100 messages.
pub(super) fn read(bytes: &[u8]) -> Result<Node, DecodeError> {
    Struct::decode(bytes).map(object)
}

fn object(message: Struct) -> Node {
    Node::Map(
        message
            .fields
            .into_iter()
            .map(|(key, value)| (key, node(value.kind)))
            .collect(),
    )
}

fn node(kind: Option<Kind>) -> Node {
    match kind {
        None | Some(Kind::NullValue(_)) => Node::Null,
        Some(Kind::BoolValue(value)) => Node::Bool(value),
        Some(Kind::NumberValue(value)) => Node::Number(value),
        Some(Kind::StringValue(value)) => Node::Text(value),
        Some(Kind::ListValue(list)) => Node::List(
            list.values
                .into_iter()
                .map(|item| node(item.kind))
                .collect(),
        ),
        Some(Kind::StructValue(fields)) => object(fields),
    }
}
