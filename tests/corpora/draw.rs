//! Numbers drawn from bytes; zeros once there are none left.

/// Bytes that are drawn from.
#[derive(Debug)]
pub struct Draw<'a>(&'a [u8]);

impl<'a> Draw<'a> {
    /// Draws from these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next bytes, as many as there are.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// A byte.
    pub fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// True once in `times`, about.
    pub fn once_in(&mut self, times: u8) -> bool {
        self.byte().is_multiple_of(times)
    }

    /// A number of any size: small ones are as likely as large ones.
    pub fn number(&mut self) -> u64 {
        let width = usize::from(self.byte() % 9);
        self.take(width)
            .iter()
            .fold(0, |number, byte| (number << 8) | u64::from(*byte))
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end.max(1)
    }

    /// One of these.
    pub fn pick<'c, T>(&mut self, choices: &'c [T]) -> &'c T {
        &choices[usize::from(self.byte()) % choices.len()]
    }
}
