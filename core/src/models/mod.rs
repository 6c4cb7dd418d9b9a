//! What the papers' models count packet by packet; their formulas are Python's (`models/`).
//!
//! Nothing here knows a simulator: a model is what that is held against.

pub mod start;
