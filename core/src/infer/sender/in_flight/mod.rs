//! What was in flight, and what the window had room for.

pub mod flight;
pub mod kept;
pub mod pipe;
pub mod room;
