//! `penalty_box`, and the `penalty` of a tier.

use crate::{
    penalty::{BoxMode, PenaltyBox},
    reader::{At, Reader},
    tier::Penalty,
    units::Millis,
};

/// `penalty` where it is not given.
pub(super) const STRIKES: Penalty = Penalty {
    strikes: 20,
    within: Millis::from_secs(60),
};

/// `penalty_box` where it is not given.
pub(super) fn default() -> PenaltyBox {
    const MINUTE: u64 = 60;
    PenaltyBox {
        mode: BoxMode::default(),
        grace: Millis::from_secs(1),
        offense_memory: Millis::from_secs(24 * 60 * MINUTE),
        levels: [5, 60, 24 * 60].map(|minutes| Millis::from_secs(minutes * MINUTE)),
        anonymous_max_level: 1,
    }
}

pub(super) fn terms(reader: &mut Reader<'_>, at: &At<'_>) -> Option<PenaltyBox> {
    let fields = reader.fields(
        at,
        &[
            "mode",
            "grace",
            "offense_memory",
            "level_1",
            "level_2",
            "level_3",
            "anonymous_max_level",
        ],
    )?;
    let absent = default();
    let [first, second, third] = absent.levels;
    let mode = fields.optional(reader, "mode", absent.mode, |reader, at| {
        reader.choice(
            at,
            &[
                ("enforce", BoxMode::Enforce),
                ("shadow", BoxMode::Shadow),
                ("off", BoxMode::Off),
            ],
        )
    });
    let grace = fields.optional(reader, "grace", absent.grace, Reader::duration_or_zero);
    let memory = absent.offense_memory;
    let memory = fields.optional(reader, "offense_memory", memory, Reader::duration);
    let first = fields.optional(reader, "level_1", first, Reader::duration);
    let second = fields.optional(reader, "level_2", second, Reader::duration);
    let third = fields.optional(reader, "level_3", third, Reader::duration);
    let max_level = absent.anonymous_max_level;
    let max_level = fields.optional(reader, "anonymous_max_level", max_level, |reader, at| {
        let level = reader.whole(at, "a level as a whole number", 1, 3)?;
        u8::try_from(level).ok()
    });
    Some(PenaltyBox {
        mode: mode?,
        grace: grace?,
        offense_memory: memory?,
        levels: [first?, second?, third?],
        anonymous_max_level: max_level?,
    })
}

/// `penalty` of a tier.
pub(super) fn strikes(reader: &mut Reader<'_>, at: &At<'_>) -> Option<Penalty> {
    const MOST: u64 = 1_000_000;
    let fields = reader.fields(at, &["strikes", "within"])?;
    let strikes = fields.optional(reader, "strikes", STRIKES.strikes, |reader, at| {
        let strikes = reader.whole(at, "a whole number of strikes", 1, MOST)?;
        u32::try_from(strikes).ok()
    });
    let within = fields.optional(reader, "within", STRIKES.within, Reader::duration);
    Some(Penalty {
        strikes: strikes?,
        within: within?,
    })
}
