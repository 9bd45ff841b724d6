//! How the penalty box works for everyone.

use crate::units::Millis;

/// Whether the box is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BoxMode {
    /// Strikes are counted and boxes refuse.
    #[default]
    Enforce,
    /// Strikes and boxes are counted apart; nobody is refused for them.
    Shadow,
    /// No strikes.
    Off,
}

/// Terms of the penalty box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PenaltyBox {
    /// Whether the box is carried out.
    pub mode: BoxMode,
    /// Promises may exceed a whole bucket by this before a refusal is a strike; 1 s by default.
    pub grace: Millis,
    /// How long an offense is remembered after the last one; 24 h by default.
    pub offense_memory: Millis,
    /// Time in the box at level 1, 2 and 3; 5 min, 60 min and 24 h by default.
    pub levels: [Millis; 3],
    /// The highest level that strikes of an address lead to, 1 to 3; 1 by default.
    pub anonymous_max_level: u8,
}
