//! Numbers with their unit in the type.

/// Points: the unit of cost. A standard request costs 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Points(pub u64);

/// A time or a length of time in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub u64);

/// A length of time in whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Seconds(pub u64);

/// A size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

impl Millis {
    /// Whole seconds as milliseconds.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// Seconds, rounded up.
    #[must_use]
    pub const fn ceil_secs(self) -> u64 {
        self.0.div_ceil(1000)
    }

    /// This time plus a length, never past the end of time.
    #[must_use]
    pub const fn plus(self, length: Self) -> Self {
        Self(self.0.saturating_add(length.0))
    }

    /// How long after `earlier` this is; 0 if it is not.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl From<Seconds> for Millis {
    fn from(seconds: Seconds) -> Self {
        Self::from_secs(seconds.0)
    }
}
