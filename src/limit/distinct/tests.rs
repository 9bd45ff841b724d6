//! Tests of `distinct`.

use fastrand::Rng;

use super::at_least;

/// As many as the local store has.
const BITS: u32 = 1120;

/// The answers while so many distinct things are seen, one after the other.
fn answers(things: u32, random: &mut Rng) -> Vec<u32> {
    let mut seen = vec![false; BITS as usize];
    let mut set = 0;
    let mut one = |_| {
        let bit = random.usize(..seen.len());
        set += u32::from(!std::mem::replace(&mut seen[bit], true));
        at_least(set, BITS)
    };
    (0..things).map(&mut one).collect()
}

#[test]
fn a_few_are_as_many_as_their_bits() {
    for set in 0..=60 {
        assert_eq!(at_least(set, BITS), set);
    }
}

#[test]
fn it_grows_with_every_bit_and_is_never_less_than_those() {
    let mut last = 0;
    for set in 1..=BITS {
        let answer = at_least(set, BITS);
        assert!(answer >= set && answer > last, "{set}: {answer}, {last}");
        last = answer;
    }
    assert!(last > 3 * BITS);
}

#[test]
fn no_numbers_are_too_large() {
    for (set, bits) in [(0, 0), (1, 0), (5, 1), (u32::MAX, 2), (70_000, 70_000)] {
        let _ = at_least(set, bits);
    }
}

#[test]
fn it_is_a_little_too_small_and_hardly_ever_too_large() {
    let mut random = Rng::with_seed(7);
    let (mut over, mut stories) = (0, 0);
    for _ in 0..400 {
        let answers = answers(1000, &mut random);
        for (index, answer) in answers.iter().enumerate() {
            let things = index as u32 + 1;
            assert!(answer * 100 + 100 >= things * 85, "{answer} of {things}");
            // Of those that matter for bans: up to 50 it is never too large.
            assert!(things > 50 || *answer <= things, "{answer} of {things}");
        }
        // Whether it was too large anywhere on the way, by more than what rounding is.
        stories += 1;
        over += u32::from(
            answers
                .iter()
                .zip(1..)
                .any(|(answer, things)| *answer > things),
        );
    }
    assert!(over * 50 <= stories, "{over} of {stories}");
}
