//! Finds the route of a method and path: a trie of segments, so that the cost does not grow with
//! the number of routes, nor with the length of a path beyond the longest pattern.

use std::collections::BTreeMap;

use crate::{
    path::pattern::{Pattern, Segment},
    route::RouteId,
};

/// Finds the first route, in the operator's order, that takes a method and path.
///
/// Whatever their form, the order decides: a template or a tail that comes first wins over an
/// exact path.
#[derive(Debug, Clone, Default)]
pub struct Router {
    /// The root is the first; empty without routes.
    nodes: Vec<Node>,
}

/// Where a number of segments leads to.
#[derive(Debug, Clone)]
struct Node {
    literal: BTreeMap<Vec<u8>, usize>,
    template: Option<usize>,
    /// Routes whose path ends here.
    here: Takers,
    /// Routes with a tail from here.
    tail: Takers,
    /// The first of all routes here and below: nothing better is to be found there.
    first: RouteId,
}

/// Routes of one pattern by method.
#[derive(Debug, Clone, Default)]
struct Takers {
    any: Option<RouteId>,
    by_method: BTreeMap<Vec<u8>, RouteId>,
}

impl Router {
    /// The first route that takes the method and the path, which is already normalised.
    ///
    /// `GET` also takes `HEAD`. A template takes one segment, a tail the path before it and all
    /// below.
    #[must_use]
    pub fn find(&self, method: &[u8], path: &[u8]) -> Option<RouteId> {
        let mut best = None;
        let rest = path.strip_prefix(b"/").unwrap_or(path);
        self.descend(0, method, rest, &mut best);
        best
    }

    /// Whether a route that takes any method takes the path, which is already normalised.
    #[must_use]
    pub fn matches(&self, path: &[u8]) -> bool {
        self.find(b"", path).is_some()
    }

    fn descend(&self, at: usize, method: &[u8], rest: &[u8], best: &mut Option<RouteId>) {
        let Some(node) = self.node_before(at, *best) else {
            return;
        };
        node.tail.improve(method, best);
        if rest.is_empty() {
            return node.here.improve(method, best);
        }
        if node.literal.is_empty() && node.template.is_none() {
            return;
        }
        let end = rest.iter().position(|b| *b == b'/').unwrap_or(rest.len());
        let (segment, rest) = rest.split_at_checked(end).unwrap_or((rest, b""));
        let rest = rest.strip_prefix(b"/").unwrap_or(rest);
        if let Some(child) = node.literal.get(segment) {
            self.descend(*child, method, rest, best);
        }
        if let Some(child) = node.template
            && !segment.is_empty()
        {
            self.descend(child, method, rest, best);
        }
    }

    /// The node, unless nothing in it can be before what was found.
    fn node_before(&self, at: usize, best: Option<RouteId>) -> Option<&Node> {
        self.nodes
            .get(at)
            .filter(|node| best.is_none_or(|best| node.first < best))
    }

    /// The first of the routes here that leave nothing of what this pattern takes: one for any of
    /// its methods. A route that several others take away together is not seen.
    pub(crate) fn takes_all(&self, methods: &[Vec<u8>], pattern: &Pattern) -> Option<RouteId> {
        let any: &[Vec<u8>] = &[Vec::new()];
        let methods = if methods.is_empty() { any } else { methods };
        let mut last = None;
        for method in methods {
            let mut best = None;
            self.cover(0, method, &pattern.segments, pattern.tail, &mut best);
            last = Some(best?);
        }
        last
    }

    fn cover(
        &self,
        at: usize,
        method: &[u8],
        rest: &[Segment],
        tail: bool,
        best: &mut Option<RouteId>,
    ) {
        let Some(node) = self.node_before(at, *best) else {
            return;
        };
        node.tail.improve(method, best);
        match rest.split_first() {
            None if tail => {}
            None => node.here.improve(method, best),
            Some((segment, rest)) => {
                let literal = match segment {
                    Segment::Literal(bytes) => node.literal.get(bytes).copied(),
                    Segment::Template(_) => None,
                };
                for child in [literal, node.template].into_iter().flatten() {
                    self.cover(child, method, rest, tail, best);
                }
            }
        }
    }

    /// Adds a route; no methods are any.
    pub(crate) fn insert(&mut self, id: RouteId, methods: &[Vec<u8>], pattern: &Pattern) {
        let root = (!self.nodes.is_empty()).then_some(0);
        let mut at = self.enter(root, id);
        for segment in &pattern.segments {
            let child = self.nodes.get(at).and_then(|node| match segment {
                Segment::Literal(bytes) => node.literal.get(bytes).copied(),
                Segment::Template(_) => node.template,
            });
            let child = self.enter(child, id);
            match (self.nodes.get_mut(at), segment) {
                (Some(node), Segment::Literal(bytes)) => {
                    node.literal.insert(bytes.clone(), child);
                }
                (Some(node), Segment::Template(_)) => node.template = Some(child),
                (None, _) => {}
            }
            at = child;
        }
        if let Some(node) = self.nodes.get_mut(at) {
            let takers = if pattern.tail {
                &mut node.tail
            } else {
                &mut node.here
            };
            takers.add(id, methods);
        }
    }

    /// A node on the way of a route: the known one, or a new one.
    fn enter(&mut self, known: Option<usize>, id: RouteId) -> usize {
        if let Some(node) = known.and_then(|known| self.nodes.get_mut(known)) {
            node.first = node.first.min(id);
        }
        known.unwrap_or_else(|| {
            self.nodes.push(Node {
                literal: BTreeMap::new(),
                template: None,
                here: Takers::default(),
                tail: Takers::default(),
                first: id,
            });
            self.nodes.len() - 1
        })
    }
}

impl Takers {
    fn add(&mut self, id: RouteId, methods: &[Vec<u8>]) {
        let first = |known: Option<RouteId>| known.map_or(id, |known| known.min(id));
        if methods.is_empty() {
            self.any = Some(first(self.any));
        }
        for method in methods {
            let also: &[&[u8]] = if method == b"GET" { &[b"HEAD"] } else { &[] };
            for method in [method.as_slice()].iter().chain(also) {
                let taker = first(self.by_method.get(*method).copied());
                self.by_method.insert(method.to_vec(), taker);
            }
        }
    }

    fn improve(&self, method: &[u8], best: &mut Option<RouteId>) {
        let takers = [self.any, self.by_method.get(method).copied()];
        *best = takers.into_iter().flatten().chain(*best).min();
    }
}

#[cfg(test)]
mod tests;
