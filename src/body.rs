//! The body of a request, where it has to be read. Must not read it.

/// The largest body that is read, in bytes.
pub const LARGEST: usize = 64 * 1024;

/// The body of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// All of it; empty where there is none.
    Whole(Vec<u8>),
    /// It is larger than [`LARGEST`].
    TooLarge,
}

impl Body {
    /// Of a request without one.
    pub const NONE: Self = Self::Whole(Vec::new());

    /// The body of these bytes.
    #[must_use]
    pub fn of(bytes: Vec<u8>) -> Self {
        if bytes.len() > LARGEST {
            Self::TooLarge
        } else {
            Self::Whole(bytes)
        }
    }
}
