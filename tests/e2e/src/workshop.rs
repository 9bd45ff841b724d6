//! An upstream that works: for a while, on one thing or another, and no longer than its client stays. Owns counting how
//! many work at once, exactly; must not know how many may.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use http::Response;
use http_body_util::{BodyExt, Full};
use tokio::sync::oneshot;

use crate::eventually::{PATIENCE, eventually};
use crate::server::{Answered, Server};
use crate::upstream::Received;

/// Before a request is worked on. Whatever a client that has gone already has sent is seen as such meanwhile.
const PRELUDE: Duration = Duration::from_millis(1);

/// What is to be done for a request.
#[derive(Debug, Clone)]
pub struct Work {
    on: String,
    takes: Duration,
    status: u16,
}

impl Work {
    /// Work on this thing for so long, and 200.
    pub fn on(thing: impl Into<String>, takes: Duration) -> Self {
        Self {
            on: thing.into(),
            takes,
            status: 200,
        }
    }

    /// Another status at the end.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }
}

/// How the work on one thing went so far.
#[derive(Debug, Clone, Default)]
pub struct Worked {
    /// How many are at work now.
    pub now: usize,
    /// How many have been at work at once, at most.
    pub most: usize,
    /// How many have come to their end.
    pub done: usize,
    /// Every request that was begun, in order.
    pub begun: Vec<Received>,
}

type Floor = Arc<Mutex<BTreeMap<String, Worked>>>;
type Plan = Arc<dyn Fn(&Received) -> Work + Send + Sync>;

/// The running upstream; it ends when this is dropped.
///
/// It has a thread of its own, and on it everything happens in the order in which the system tells of it: that a client
/// has gone is seen before whatever another one does because of that. So the counts are exact, also on a machine that
/// is busy: nobody is counted who does not work any more.
pub struct Workshop {
    address: SocketAddr,
    floor: Floor,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Workshop {
    /// Opens it on a free port of 127.0.0.1; the plan says what is to be done for each request.
    pub fn open(plan: impl Fn(&Received) -> Work + Send + Sync + 'static) -> Self {
        let floor = Floor::default();
        let plan: Plan = Arc::new(plan);
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = channel();
        let shared = Arc::clone(&floor);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async move {
                let server = Server::start(move |request| {
                    let (floor, plan) = (Arc::clone(&shared), Arc::clone(&plan));
                    async move { work(Received::whole(request).await?, &floor, &plan).await }
                });
                let server = server.await;
                tell.send(server.address()).expect("who has opened it");
                // An error: it was dropped.
                let _ = stopped.await;
            });
        });
        Self {
            address: told.recv().expect("its address"),
            floor,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How the work on this thing went so far.
    pub fn worked(&self, on: &str) -> Worked {
        let floor = self.floor.lock().unwrap();
        floor.get(on).cloned().unwrap_or_default()
    }

    /// Everything that was worked on so far.
    pub fn things(&self) -> Vec<String> {
        self.floor.lock().unwrap().keys().cloned().collect()
    }

    /// Waits until so many have begun to work on this.
    ///
    /// # Panics
    ///
    /// When they have not within 30 seconds.
    pub async fn has_begun(&self, on: &str, count: usize) {
        eventually(&format!("{count} to work on {on}"), PATIENCE, async || {
            (self.worked(on).begun.len() >= count).then_some(())
        })
        .await;
    }

    /// Waits until nobody works.
    ///
    /// # Panics
    ///
    /// When somebody still does after 30 seconds.
    pub async fn is_still(&self) {
        eventually("nobody works", PATIENCE, async || {
            let floor = self.floor.lock().unwrap();
            floor.values().all(|worked| worked.now == 0).then_some(())
        })
        .await;
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Somebody at work; no longer when this is dropped, as it is when the client leaves.
struct AtWork<'a> {
    floor: &'a Floor,
    on: String,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        let mut floor = self.floor.lock().unwrap();
        floor.get_mut(&self.on).expect("what was begun").now -= 1;
    }
}

async fn work(received: Received, floor: &Floor, plan: &Plan) -> Answered {
    let Work { on, takes, status } = plan(&received);
    tokio::time::sleep(PRELUDE).await;
    {
        let mut floor = floor.lock().unwrap();
        let worked = floor.entry(on.clone()).or_default();
        worked.now += 1;
        worked.most = worked.most.max(worked.now);
        worked.begun.push(received);
    }
    let at_work = AtWork { floor, on };
    tokio::time::sleep(takes).await;
    floor
        .lock()
        .unwrap()
        .get_mut(&at_work.on)
        .expect("what was begun")
        .done += 1;
    drop(at_work);
    let mut response = Response::new(Full::default().boxed());
    *response.status_mut() = status.try_into()?;
    Ok(response)
}
