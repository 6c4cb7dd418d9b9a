//! What was in flight, and what the window had room for.

pub mod flight;
pub(super) mod kept;
mod pipe;
pub mod room;
