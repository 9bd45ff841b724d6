//! The access log of the gateway. Owns its format, written and read here; must not know the verdicts.

use serde_json::{Value, json};

/// One line: one request that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// The status the client saw; 0 where it left before.
    pub status: u16,
    /// What the filter left for the access log: `%FILTER_STATE(wasm.tollgate_verdict:PLAIN)%`.
    pub verdict: Option<String>,
    /// The method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// Envoy's response flags; `DC` is a client that went away.
    pub flags: Option<String>,
    /// Envoy's word for how the response came about, such as `via_upstream`.
    pub details: Option<String>,
}

impl LogLine {
    /// The access logger that writes such lines to `path`.
    pub(crate) fn logger(path: &str) -> Value {
        json!({
            "name": "envoy.access_loggers.file",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog",
                "path": path,
                "log_format": {
                    "json_format": {
                        "status": "%RESPONSE_CODE%",
                        "verdict": "%FILTER_STATE(wasm.tollgate_verdict:PLAIN)%",
                        "method": "%REQ(:METHOD)%",
                        "path": "%REQ(:PATH)%",
                        "flags": "%RESPONSE_FLAGS%",
                        "details": "%RESPONSE_CODE_DETAILS%",
                    },
                },
            },
        })
    }

    /// The lines that are whole; the last one may be in the writing.
    pub(crate) fn parse(text: &str) -> Vec<Self> {
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(Self::line).collect()
    }

    fn line(line: &str) -> Self {
        let value: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line:?}"));
        let text = |name: &str| match value[name].as_str() {
            None | Some("-") => None,
            Some(text) => Some(text.to_owned()),
        };
        Self {
            status: value["status"]
                .as_u64()
                .and_then(|status| u16::try_from(status).ok())
                .unwrap_or(0),
            verdict: text("verdict"),
            method: text("method").unwrap_or_default(),
            path: text("path").unwrap_or_default(),
            flags: text("flags"),
            details: text("details"),
        }
    }
}
