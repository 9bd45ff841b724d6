//! Envoy's metrics in Prometheus' text format. Owns reading and summing them; must not know any of their names.

use std::collections::BTreeMap;
use std::fmt;

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The metric's name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}

/// Everything Envoy told at one moment.
#[derive(Debug, Clone, Default)]
pub struct Stats(Vec<Sample>);

impl Stats {
    pub(crate) fn parse(text: &str) -> Self {
        let lines = text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self(
            lines
                .map(|line| sample(line).unwrap_or_else(|| panic!("not a metric: {line:?}")))
                .collect(),
        )
    }

    /// The samples of this name that carry at least these labels.
    pub fn of(&self, name: &str, labels: &[(&str, &str)]) -> impl Iterator<Item = &Sample> {
        self.0.iter().filter(move |sample| {
            sample.name == name
                && labels.iter().all(|(label, value)| {
                    sample
                        .labels
                        .get(*label)
                        .is_some_and(|found| found == value)
                })
        })
    }

    /// The sum of those; 0 where there is none, for a counter appears with its first increment.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.of(name, labels).map(|sample| sample.value).sum()
    }

    /// Every sample whose name starts like this.
    pub fn starting(&self, prefix: &str) -> impl Iterator<Item = &Sample> {
        self.0
            .iter()
            .filter(move |sample| sample.name.starts_with(prefix))
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?} {}", self.name, self.labels, self.value)
    }
}

/// `name{label="value",...} 1`, or without labels.
fn sample(line: &str) -> Option<Sample> {
    let (series, value) = line.rsplit_once(' ')?;
    let value = value.parse().ok()?;
    let Some((name, mut rest)) = series.split_once('{') else {
        return Some(Sample {
            name: series.to_owned(),
            labels: BTreeMap::new(),
            value,
        });
    };
    let mut labels = BTreeMap::new();
    while !rest.starts_with('}') {
        let (label, quoted) = rest.trim_start_matches(',').split_once("=\"")?;
        let (text, after) = unquote(quoted)?;
        labels.insert(label.to_owned(), text);
        rest = after;
    }
    Some(Sample {
        name: name.to_owned(),
        labels,
        value,
    })
}

/// The text up to the closing quote, and what follows it.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((text, &quoted[at + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => text.push('\n'),
                other => text.push(other),
            },
            other => text.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::Stats;

    #[test]
    fn sums_what_carries_the_labels() {
        let stats = Stats::parse(
            "# TYPE tollgate_requests_total counter\n\
             tollgate_requests_total{route=\"a\",tier=\"t\"} 2\n\
             tollgate_requests_total{route=\"b\",tier=\"t\"} 3\n\n\
             tollgate_degraded{} 1\n\
             plain 1.5\n",
        );
        assert_eq!(stats.sum("tollgate_requests_total", &[("tier", "t")]), 5.0);
        assert_eq!(
            stats.sum("tollgate_requests_total", &[("tier", "t"), ("route", "b")]),
            3.0
        );
        assert_eq!(
            stats.sum("tollgate_requests_total", &[("tier", "other")]),
            0.0
        );
        assert_eq!(stats.sum("tollgate_degraded", &[]), 1.0);
        assert_eq!(stats.sum("plain", &[]), 1.5);
    }

    #[test]
    fn reads_quoted_characters() {
        let stats = Stats::parse(r#"m{a="x\"},{\\",b="y"} 1"#);
        assert_eq!(stats.sum("m", &[("a", r#"x"},{\"#), ("b", "y")]), 1.0);
    }
}
