//! `subject` of a throttle: where a request names the user or client whose credential it presents.

use super::pointer;
use crate::{
    reader::{At, Reader},
    throttle::SubjectSource,
};

/// What to write.
pub(super) const EXPECTED: &str =
    "an object of basic, form, json, normalize, with at least one of basic, form, json";

pub(super) fn read(reader: &mut Reader<'_>, at: &At<'_>) -> Option<SubjectSource> {
    let fields = reader.fields(at, &["basic", "form", "json", "normalize"])?;
    let basic = fields.optional(reader, "basic", false, Reader::boolean);
    // One that cannot be read is there.
    let is_named = basic != Some(false)
        || ["form", "json"]
            .iter()
            .any(|name| fields.get(name).is_some());
    if !is_named {
        let message = "found none of basic, form, json, expected at least one of them";
        reader.error(&at.path, message.to_owned());
    }
    let form = fields.optional(reader, "form", None, |reader, at| {
        reader
            .text(at, "the name of a field in a form, such as client_id")
            .map(Some)
    });
    let json = fields.optional(reader, "json", None, |reader, at| {
        pointer::read(reader, at, "/client_id").map(Some)
    });
    let rules = fields.optional(reader, "normalize", Vec::new(), normalize)?;
    Some(SubjectSource {
        basic: basic?,
        form: form?,
        json: json?,
        trim: rules.contains(&Rule::Trim),
        lowercase: rules.contains(&Rule::Lowercase),
    })
}

/// A difference between two subjects that does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Trim,
    Lowercase,
}

fn normalize(reader: &mut Reader<'_>, at: &At<'_>) -> Option<Vec<Rule>> {
    let mut rules: Vec<Rule> = Vec::new();
    reader.list(at, "a list of trim, lowercase", |reader, at| {
        let rule = reader.choice(at, &[("trim", Rule::Trim), ("lowercase", Rule::Lowercase)])?;
        if rules.contains(&rule) {
            let message = "found this again, expected trim and lowercase each once";
            reader.error(&at.path, message.to_owned());
        }
        rules.push(rule);
        Some(())
    })?;
    Some(rules)
}
