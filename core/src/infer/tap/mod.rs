//! What a tap away from a sender tells of its sends: echoes, stamps, and between which ACKs each left.

pub mod captured;
pub mod echoes;
pub mod leaving;
pub mod offered;
pub mod releases;
pub mod stamped;
pub mod together;
pub mod upper_line;
