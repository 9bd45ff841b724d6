//! How many distinct things were seen, of which each sets one of a number of bits, chosen by its hash: linear
//! counting (Whang, Vander-Zanden, Taylor 1990), from below.
//!
//! Several may set the same bit, so that the bits alone are too few. Until as many are set as are, so many
//! things are needed on average, by the collector's problem: bits / (bits - i) for each i of them. Three standard
//! deviations below that is the answer, but never less than the bits: it is too large once in a thousand times.

/// Fixed point: so many bits are after it.
const FRACTION: u32 = 16;

/// Standard deviations that the answer stays below the average.
const DEVIATIONS: u64 = 3;

/// How many distinct things were seen at least, where `set` of so many bits are set. The last fiftieth of the bits tells
/// nothing: with them set, there were more than three times as many things as there are bits.
#[must_use]
pub fn at_least(set: u32, bits: u32) -> u32 {
    let told = u64::from(set.min(bits - bits / 50));
    let bits = u64::from(bits);
    let (mut beyond, mut variance) = (0_u64, 0_u64);
    for already in 0..told {
        let left = bits.saturating_sub(already).max(1);
        // One more bit takes bits / left things on average: already / left more than one.
        beyond = beyond.saturating_add((already << FRACTION) / left);
        variance = variance.saturating_add(((already * bits) << FRACTION) / (left * left));
    }
    let deviation = variance.saturating_mul(1 << FRACTION).isqrt();
    let sure = beyond.saturating_sub(deviation.saturating_mul(DEVIATIONS)) >> FRACTION;
    set.saturating_add(u32::try_from(sure).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
