//! Kinds of leases and quotas: what a kind may be called, which tiers have it, and that no route asks for
//! one that none has.

use std::collections::BTreeSet;

use crate::{
    quote::{is_name, quoted},
    reader::{At, Fields, Path, Reader, Value, one_of},
    tree::Node,
};

/// What a kind must be: it stands in keys and labels metrics.
pub(super) const KIND: &str = "a kind of 1 to 24 of A-Z a-z 0-9 _ -";

/// Whether the text fits [`KIND`].
pub(super) fn is_kind(text: &str) -> bool {
    text.len() <= 24 && is_name(text)
}

/// The text, if it is a kind that a message can show as it would be written: digits need quotes.
pub(super) fn example(text: &str) -> Option<&str> {
    (is_kind(text) && text.starts_with(|c: char| c.is_ascii_alphabetic())).then_some(text)
}

/// The kinds of all tiers.
pub(super) struct Kinds {
    pub(super) leases: Known,
    pub(super) quotas: Known,
}

impl Kinds {
    pub(super) const fn new() -> Self {
        Self {
            leases: Known::new("leases"),
            quotas: Known::new("quotas"),
        }
    }

    /// A tier and what it has; `None` if that is no object, which is reported where it is read.
    pub(super) fn add(&mut self, tier: &str, fields: Option<&Fields<'_>>) {
        self.leases.add(tier, fields);
        self.quotas.add(tier, fields);
    }

    /// That `tiers` is no object, so that there may be any kind.
    pub(super) const fn cannot_be_known(&mut self) {
        self.leases.is_partial = true;
        self.quotas.is_partial = true;
    }
}

/// The kinds that stand in one field of all tiers.
pub(super) struct Known {
    field: &'static str,
    /// Each tier with its kinds.
    tiers: Vec<(String, Vec<String>)>,
    /// Something could not be read: there may be others.
    is_partial: bool,
}

/// Tiers that a warning names.
const NAMED: usize = 6;

impl Known {
    const fn new(field: &'static str) -> Self {
        Self {
            field,
            tiers: Vec::new(),
            is_partial: false,
        }
    }

    fn add(&mut self, tier: &str, fields: Option<&Fields<'_>>) {
        let names = match fields.map(|fields| fields.get(self.field)) {
            Some(Some(at)) => at.peek_names(),
            Some(None) => Some(Vec::new()),
            None => None,
        };
        match names {
            Some(names) => {
                let kinds = names.into_iter().map(str::to_owned).collect();
                self.tiers.push((tier.to_owned(), kinds));
            }
            None => self.is_partial = true,
        }
    }

    /// The kind that a route asks for.
    pub(super) fn read(&self, reader: &mut Reader<'_>, at: &At<'_>) -> Option<String> {
        let value = reader.value(at)?;
        let kind = match &value {
            Value::Text(text) if is_kind(&text.value) => text.value.as_ref(),
            Value::Text(_) => return reader.mismatch(at, &value, KIND),
            other => {
                let kind = kind_inside(other).unwrap_or("bulk");
                let expected = format!("{KIND} as text, such as {kind}");
                return reader.mismatch(at, &value, &expected);
            }
        };
        if !self.is_partial && !self.tiers.iter().any(|(_, kinds)| has(kinds, kind)) {
            return reader.mismatch(at, &value, &self.expected(kind));
        }
        self.warn_of_tiers_without(reader, &at.path, kind);
        Some(kind.to_owned())
    }

    fn expected(&self, kind: &str) -> String {
        let kinds = self.tiers.iter().flat_map(|(_, kinds)| kinds);
        let kinds: BTreeSet<&str> = kinds.map(String::as_str).collect();
        let field = self.field;
        if self.tiers.is_empty() {
            format!("a kind of a tier's {field}, and there are no tiers")
        } else if kinds.is_empty() {
            format!("a kind of a tier's {field}, and no tier has any")
        } else {
            let names = one_of(kind, kinds.iter().copied());
            format!("a kind of a tier's {field}: {names}")
        }
    }

    fn warn_of_tiers_without(&self, reader: &mut Reader<'_>, path: &Path, kind: &str) {
        let mut without = self
            .tiers
            .iter()
            .filter(|(_, kinds)| !has(kinds, kind))
            .map(|(tier, _)| tier.as_str());
        let mut named: Vec<&str> = without.by_ref().take(NAMED).collect();
        if named.is_empty() {
            return;
        }
        let more = match without.count() {
            0 => String::new(),
            more => format!("{more} more"),
        };
        named.extend((!more.is_empty()).then_some(more.as_str()));
        let message = format!(
            "found {}, which these tiers have no {} for: {}. Their tenants have no limit of that kind",
            quoted(kind),
            self.field,
            named.join(", ")
        );
        reader.warn(path, message);
    }
}

/// The kind in an object such as `{kind: bulk}`, where the kind alone is asked for.
fn kind_inside<'t>(value: &Value<'t>) -> Option<&'t str> {
    let Value::Map(pairs) = value else {
        return None;
    };
    let (_, node) = pairs.iter().find(|(name, _)| name == "kind")?;
    match node {
        Node::Text(written) => example(written),
        _ => None,
    }
}

fn has(kinds: &[String], kind: &str) -> bool {
    kinds.iter().any(|known| known == kind)
}
