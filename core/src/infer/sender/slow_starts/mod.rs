//! Slow starts, and the loss cycles that they make.

pub mod cycles;
pub mod stretches;
