//! `stuffing`: what from one address is taken for credential stuffing.

use crate::{
    reader::{At, Reader},
    throttle::{Stuffing, Throttle},
};

/// Reads it for these throttles, if they can be read.
pub(super) fn read(
    reader: &mut Reader<'_>,
    at: &At<'_>,
    throttles: Option<&[Throttle]>,
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
        let subjects = u32::try_from(reader.whole(at, SUBJECTS, 1, MOST)?).ok()?;
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
