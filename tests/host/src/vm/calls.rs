//! Calls to other services: listing them, and playing what becomes of them.

use crate::{Answer, Call, Outcome, Trap, Vm};

use super::ROUNDS_TO_REST;

impl Vm {
    /// The calls that have not come to an end, oldest first.
    pub fn calls(&self) -> &[Call] {
        &self.store.data().calls
    }

    /// The oldest call that has not come to an end.
    pub fn next_call(&self) -> Option<&Call> {
        self.calls().first()
    }

    /// Plays a service's answer to a call.
    ///
    /// # Errors
    ///
    /// If the guest traps, now or before.
    ///
    /// # Panics
    ///
    /// If no call of that token is open.
    pub fn answer(&mut self, token: u32, answer: Answer) -> Result<(), Trap> {
        self.conclude(token, Outcome::Answered(answer))
    }

    /// The connection broke before an answer: the guest gets one without headers.
    ///
    /// # Errors
    ///
    /// If the guest traps, now or before.
    ///
    /// # Panics
    ///
    /// If no call of that token is open.
    pub fn fail(&mut self, token: u32) -> Result<(), Trap> {
        self.conclude(token, Outcome::Reset)
    }

    /// Plays what becomes of a call; [`Outcome::Pending`] does nothing.
    ///
    /// # Errors
    ///
    /// If the guest traps, now or before.
    ///
    /// # Panics
    ///
    /// If no call of that token is open.
    pub fn conclude(&mut self, token: u32, outcome: Outcome) -> Result<(), Trap> {
        self.alive()?;
        let state = self.store.data_mut();
        let personality = state.shared.options.personality;
        let answer = match outcome {
            Outcome::Answered(answer) => answer,
            Outcome::Refused => personality.refused(),
            Outcome::TimedOut => personality.timed_out(),
            Outcome::Reset => Answer::default(),
            Outcome::Pending => return Ok(()),
        };
        let at = state.calls.iter().position(|call| call.token == token);
        let call = state.calls.remove(at.expect("an open call of that token"));
        if !state.roots.contains_key(&call.root) {
            return Ok(());
        }
        let (fields, size) = (answer.headers.len() as u32, answer.body.len() as u32);
        state.answer = Some((call.root, answer));
        let args = (call.root, token, fields, size, 0);
        let done = self.enter(call.root, self.exports.call_response, args);
        self.store.data_mut().answer = None;
        done?;
        self.drain()
    }

    /// Times out every call whose timeout has passed in virtual time; tells how many.
    ///
    /// # Errors
    ///
    /// If the guest traps, now or before.
    pub fn expire_calls(&mut self) -> Result<usize, Trap> {
        let now = self.store.data().shared.now();
        let expired = |call: &&Call| {
            call.timeout.is_some_and(|timeout| {
                u128::from(now.saturating_sub(call.sent_at)) >= timeout.as_nanos()
            })
        };
        let due: Vec<u32> = self
            .calls()
            .iter()
            .filter(expired)
            .map(|c| c.token)
            .collect();
        for token in &due {
            self.conclude(*token, Outcome::TimedOut)?;
        }
        Ok(due.len())
    }

    /// Sets what answers calls in [`Vm::run`] and [`Vm::exchange`]; before it is set, nothing does.
    pub fn set_backend(&mut self, backend: impl FnMut(&Call) -> Outcome + Send + 'static) {
        self.backend = Some(Box::new(backend));
    }

    /// Delivers queue notices and lets the backend answer calls until nothing moves any more.
    ///
    /// # Errors
    ///
    /// If the guest traps, now or before.
    pub fn run(&mut self) -> Result<(), Trap> {
        for _ in 0..ROUNDS_TO_REST {
            let delivered = self.deliver()?;
            if delivered + self.consult_backend()? == 0 {
                return Ok(());
            }
        }
        panic!("the guest never comes to rest: {ROUNDS_TO_REST} rounds of notices and calls");
    }

    /// Asks the backend about the calls open now; tells how many it brought to an end.
    fn consult_backend(&mut self) -> Result<usize, Trap> {
        let Some(mut backend) = self.backend.take() else {
            return Ok(0);
        };
        let concluded = self.ask(&mut backend);
        self.backend = Some(backend);
        concluded
    }

    fn ask(&mut self, backend: &mut super::Backend) -> Result<usize, Trap> {
        let mut concluded = 0;
        let last = self.store.data().last_token;
        let mut at = 0;
        while let Some(call) = self.calls().get(at).filter(|call| call.token <= last) {
            let token = call.token;
            match backend(call) {
                Outcome::Pending => at += 1,
                outcome => {
                    self.conclude(token, outcome)?;
                    concluded += 1;
                }
            }
        }
        Ok(concluded)
    }
}
