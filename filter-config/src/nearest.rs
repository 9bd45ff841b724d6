//! Which known name a mistyped one was probably meant to be.

/// Longer names are not compared: the work grows with the product of the lengths.
const LONGEST: usize = 40;

/// The known name nearest to `name`, if it is near: a third of its letters wrong at most, where
/// two neighbours swapped are one mistake. Case and `-` for `_` do not count.
pub(crate) fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if name.len() > LONGEST {
        return None;
    }
    let name = folded(name);
    let allowed = (name.len() / 3).max(1);
    known
        .into_iter()
        .map(|candidate| (distance(&name, &folded(candidate)), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn folded(name: &str) -> Vec<u8> {
    name.bytes()
        .map(|b| match b {
            b'-' => b'_',
            b => b.to_ascii_lowercase(),
        })
        .collect()
}

/// Edit distance with swaps of neighbours (optimal string alignment), three rows at a time.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let mut a_last = None;
    for (row, &a_now) in a.iter().enumerate() {
        let mut now = vec![row + 1];
        let mut b_last = None;
        for (column, &b_now) in b.iter().enumerate() {
            let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX);
            let changed = at(&last, column).saturating_add(usize::from(a_now != b_now));
            let removed = at(&last, column + 1).saturating_add(1);
            let added = at(&now, column).saturating_add(1);
            let swapped = match column.checked_sub(1) {
                Some(before_column) if a_last == Some(b_now) && b_last == Some(a_now) => {
                    at(&before, before_column).saturating_add(1)
                }
                _ => usize::MAX,
            };
            now.push(changed.min(removed).min(added).min(swapped));
            b_last = Some(b_now);
        }
        before = std::mem::replace(&mut last, now);
        a_last = Some(a_now);
    }
    last.last().copied().unwrap_or(a.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_by_hand() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
            ("tiers", "teirs", 1),
            ("burst", "brust", 1),
            ("cost", "cots", 1),
        ] {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), expected, "{a} {b}");
        }
    }

    #[test]
    fn only_a_near_name_is_proposed() {
        let known = ["tenant", "key", "tier", "tenants"];
        assert_eq!(nearest("tenat", known), Some("tenant"));
        assert_eq!(nearest("Key", known), Some("key"));
        assert_eq!(nearest("teir", known), Some("tier"));
        assert_eq!(nearest("leases", known), None);
        assert_eq!(nearest(&"tenant".repeat(100), known), None);
    }
}
