//! Throttles of failed credentials on a real Envoy.

mod adr_018;
mod chains;
mod door;
mod faults;
mod flood;
mod hostile;
mod lockouts;
mod outages;
mod owner;
mod refusals;
mod secrets;
mod slots;
mod stuffing;
mod tenants;

type Outcome = Result<(), Box<dyn std::error::Error>>;
