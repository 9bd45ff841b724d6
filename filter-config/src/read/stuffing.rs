//! `stuffing`: what from one address is taken for credential stuffing.

use crate::{
    reader::{At, Reader},
    throttle::{Stuffing, Throttle},
};

/// Reads it for these throttles, if they can be read. What the local store estimates subjects by ends a little above
/// 1,000 of them.
pub(super) fn read(
    reader: &mut Reader<'_>,
    at: &At<'_>,
    throttles: Option<&[Throttle]>,
    store_can_fail: Option<bool>,
) -> Option<Stuffing> {
    const MOST: u64 = 1_000_000;
    const FAILURES: &str = "a whole number of failures";
    const SUBJECTS: &str = "a whole number of subjects";
    let fields = reader.fields(at, &["failures", "subjects", "within"])?;
    if throttles.is_some_and(|all| all.iter().all(|one| one.subject.is_none())) {
        let message = "found stuffing but no auth throttle with a subject, expected at least one: distinct \
                       subjects are counted";
        reader.error(&at.path, message.to_owned());
    }
    let failures = fields.required(reader, "failures", FAILURES, |reader, at| {
        let failures = reader.whole(at, FAILURES, 1, MOST)?;
        u32::try_from(failures).ok()
    });
    let subjects = fields.required(reader, "subjects", SUBJECTS, |reader, at| {
        let most = match store_can_fail {
            Some(false) => (1000, "1000 with the local store"),
            _ => (MOST, "1000000"),
        };
        let subjects = reader.whole_up_to(at, SUBJECTS, 1, most)?;
        let subjects = u32::try_from(subjects).ok()?;
        if let Some(failures) = failures.filter(|failures| *failures < subjects) {
            let message = format!(
                "found {subjects}, more than the failures ({failures}), expected at most as many: each \
                 failure is one subject's"
            );
            reader.error(&at.path, message);
        }
        Some(subjects)
    });
    let within = fields.required(reader, "within", "a duration", Reader::lifetime);
    Some(Stuffing {
        failures: failures?,
        subjects: subjects?,
        within: within?,
    })
}
