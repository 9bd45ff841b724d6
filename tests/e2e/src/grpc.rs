//! A gRPC client for messages that are just bytes, so that no schema has to be compiled. Owns the codec; must not
//! hide what came: a refusal is the `Status` with its metadata.

use std::net::SocketAddr;
use std::str::FromStr;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::uri::PathAndQuery;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::{Ascii, MetadataKey, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

/// A gRPC connection to the gateway.
#[derive(Debug, Clone)]
pub struct GrpcClient(Channel);

impl GrpcClient {
    pub(crate) async fn connect(to: SocketAddr) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{to}")).expect("an address");
        Self(
            endpoint
                .connect()
                .await
                .expect("a gRPC connection to the gateway"),
        )
    }

    /// Calls `/package.Service/Method` once, with these headers.
    ///
    /// # Errors
    ///
    /// The status, when it is not OK; its metadata holds the headers of the answer.
    pub async fn call(
        &self,
        method: &str,
        headers: &[(&str, &str)],
        message: impl Into<Bytes>,
    ) -> Result<Response<Bytes>, Status> {
        let mut request = Request::new(message.into());
        for (name, value) in headers {
            let name = MetadataKey::<Ascii>::from_str(name).expect("a header name");
            request.metadata_mut().append(
                name,
                MetadataValue::from_str(value).expect("a header value"),
            );
        }
        let mut client = tonic::client::Grpc::new(self.0.clone());
        client
            .ready()
            .await
            .map_err(|error| Status::unknown(error.to_string()))?;
        client
            .unary(
                request,
                PathAndQuery::from_str(method).expect("a method"),
                BytesCodec,
            )
            .await
    }
}

/// A message as it goes over the wire: not compressed, its length, itself.
pub fn frame(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(message.len() + 5);
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).expect("a message under 4 GiB"));
    framed.put_slice(message);
    framed.freeze()
}

struct BytesCodec;

impl Codec for BytesCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put(item);
        Ok(())
    }
}

impl Decoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
