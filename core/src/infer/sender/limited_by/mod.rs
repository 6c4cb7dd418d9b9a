//! What held the sender back, and its window between bounds.

pub mod held_back;
pub mod limits;
pub mod shares;
pub mod starving;
pub mod windows;
