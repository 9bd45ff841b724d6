//! What one VM's guest can reach through host calls, and what it asked for.
//!
//! Holds data only: the ABI changes it, the VM acts on it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use wasmi::{Memory, TypedFunc};

use crate::process::Shared;
use crate::stream::{LocalReply, Side, Stream};
use crate::{Answer, Call, LogLevel, LogLine, Misuse};

/// What the guest asked for during a callback and the host does after it, as Envoy does.
#[derive(Debug)]
pub(crate) enum Deferred {
    Reply(u32, LocalReply),
    Resume(u32, Side),
    Reset(u32),
    RootDone(u32),
}

/// A root context: one configuration of the filter.
#[derive(Debug, Default)]
pub(crate) struct Root {
    pub(crate) tick_millis: u32,
}

/// The data of a VM's store.
pub(crate) struct State {
    pub(crate) shared: Arc<Shared>,
    pub(crate) vm: usize,
    pub(crate) memory: Option<Memory>,
    pub(crate) allocate: Option<TypedFunc<u32, u32>>,
    /// What is about to be handed to the guest; kept to save allocations.
    pub(crate) scratch: Vec<u8>,
    pub(crate) random: u64,
    pub(crate) logs: VecDeque<LogLine>,

    pub(crate) roots: BTreeMap<u32, Root>,
    pub(crate) streams: HashMap<u32, Stream>,
    /// The context whose callback runs.
    pub(crate) context: u32,
    /// The context host calls act on.
    pub(crate) effective: u32,
    /// The export that runs.
    pub(crate) callback: &'static str,
    /// The plugin's configuration, while it may be read.
    pub(crate) configuration: Option<Vec<u8>>,
    /// The stream whose `on_log` runs: its headers may be read again.
    pub(crate) logging: Option<u32>,
    /// The answer being delivered, and the root that may read it.
    pub(crate) answer: Option<(u32, Answer)>,

    pub(crate) calls: Vec<Call>,
    pub(crate) last_token: u32,
    pub(crate) deferred: VecDeque<Deferred>,
    /// The guest replied during this callback: its return value no longer counts.
    pub(crate) replied: bool,
    pub(crate) misuses: Vec<Misuse>,
    pub(crate) unserved_calls: BTreeSet<(String, String)>,
}

impl State {
    pub(crate) fn new(shared: Arc<Shared>, vm: usize) -> Self {
        let seed = shared.options.seed;
        Self {
            shared,
            vm,
            memory: None,
            allocate: None,
            scratch: Vec::new(),
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ((vm as u64 + 1) << 32),
            logs: VecDeque::new(),
            roots: BTreeMap::new(),
            streams: HashMap::new(),
            context: 0,
            effective: 0,
            callback: "",
            configuration: None,
            logging: None,
            answer: None,
            calls: Vec::new(),
            last_token: 0,
            deferred: VecDeque::new(),
            replied: false,
            misuses: Vec::new(),
            unserved_calls: BTreeSet::new(),
        }
    }

    /// The context host calls act on: the effective one, or the callback's own if that is gone.
    pub(crate) fn current(&self) -> u32 {
        if self.exists(self.effective) {
            self.effective
        } else {
            self.context
        }
    }

    /// Whether a context of that id lives.
    pub(crate) fn exists(&self, context: u32) -> bool {
        self.live(context).is_some() || self.roots.contains_key(&context)
    }

    /// The stream of that id, unless it has ended.
    pub(crate) fn live(&self, id: u32) -> Option<&Stream> {
        self.streams.get(&id).filter(|stream| !stream.ended)
    }

    /// The stream of that id, unless it has ended.
    pub(crate) fn live_mut(&mut self, id: u32) -> Option<&mut Stream> {
        self.streams.get_mut(&id).filter(|stream| !stream.ended)
    }

    /// The root context of the current context.
    pub(crate) fn current_root(&self) -> u32 {
        let current = self.current();
        self.live(current).map_or(current, |stream| stream.root)
    }

    /// The answer being delivered, if the current context may read it.
    pub(crate) fn answer(&self) -> Option<&Answer> {
        let (root, answer) = self.answer.as_ref()?;
        (*root == self.current_root()).then_some(answer)
    }

    pub(crate) fn log(&mut self, level: LogLevel, message: &[u8]) {
        let options = &self.shared.options;
        if level < options.log_level {
            return;
        }
        while self.logs.len() >= options.log_lines.max(1) {
            self.logs.pop_front();
        }
        self.logs.push_back(LogLine {
            level,
            message: String::from_utf8_lossy(message).into_owned(),
        });
    }

    pub(crate) fn misuse(&mut self, stream: u32, what: &'static str) {
        self.misuses.push(Misuse { stream, what });
    }

    /// The next 64 bits of the guest's randomness (splitmix64).
    pub(crate) fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
