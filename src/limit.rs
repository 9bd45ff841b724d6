//! The arithmetic of limits, one idea a file. Whole numbers wherever a result is compared or
//! shown, so that every store gives the same verdict, remaining and wait for the same story.

pub mod attempts;
pub mod bucket;
pub mod decision;
pub mod distinct;
pub mod penalty;
pub mod promise;
pub mod slots;
pub mod window;
