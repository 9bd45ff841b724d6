//! Throttles of failed credentials: whose attempts are counted, what is a failure, and what follows.

use crate::{route::RouteId, units::Millis};

/// Index of a throttle in [`Config::auth_throttles`](crate::Config::auth_throttles).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThrottleId(pub usize);

/// Whose attempts are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ThrottleBy {
    /// Those for one subject, from anywhere.
    Subject,
    /// Those from one client address, for anybody.
    Ip,
    /// Those for one subject from one client address.
    SubjectIp,
}

/// Where a request names its subject: the user or client whose credential it presents. Where it names one in
/// several of these places, they have to agree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SubjectSource {
    /// The user-id of HTTP Basic (RFC 7617).
    pub basic: bool,
    /// A field of a form in the body (`application/x-www-form-urlencoded`).
    pub form: Option<String>,
    /// A value in a JSON body: the tokens of a JSON pointer (RFC 6901), unescaped; at least one.
    pub json: Option<Vec<String>>,
    /// White space around it does not count.
    pub trim: bool,
    /// Its case does not count.
    pub lowercase: bool,
}

/// A throttle of failed credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Throttle {
    /// `[A-Za-z0-9_-]{1,24}`, unique.
    pub name: String,
    /// The routes it is for, in order; `None`: every route that is not exempt.
    pub routes: Option<Vec<RouteId>>,
    /// Whose attempts are counted together.
    pub by: ThrottleBy,
    /// Where the subject is named; given unless `by` is `Ip`.
    pub subject: Option<SubjectSource>,
    /// Statuses of responses that are a failed attempt (400 to 499, in order); 401 and 403 by default.
    pub count: Vec<u16>,
    /// So many failures lead to a lockout; 1 to 1,000. To 100 with the local store, and where it judges a
    /// route of the throttle while another store fails.
    pub failures: u32,
    /// In a sliding window of this length; 1 s to 31 days.
    pub within: Millis,
    /// How long the first lockout lasts; the box's `level_1` by default.
    pub lockout: Millis,
    /// A success clears the failures; by default where `by` is not `Ip`.
    pub reset_on_success: bool,
    /// An attempt in flight counts as a failure until it is known not to be one. By default on routes with
    /// `limiter: credential`.
    pub provisional: Option<bool>,
    /// Addresses from which the subject succeeded before have windows of their own; by default where `by` is
    /// `Subject`, and never elsewhere.
    pub spare_known_ips: bool,
}

impl Throttle {
    /// Whether it is for a route.
    #[must_use]
    pub fn covers(&self, route: RouteId) -> bool {
        self.routes
            .as_ref()
            .is_none_or(|routes| routes.contains(&route))
    }
}

/// What from one address is taken for credential stuffing: both so many failures and so many distinct
/// subjects among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stuffing {
    /// Failures; at least 1.
    pub failures: u32,
    /// Distinct subjects; at least 1.
    pub subjects: u32,
    /// In a window of this length, from the first failure; 1 s to 31 days.
    pub within: Millis,
}
