//! Candidates played over what a sender heard, and what a capture says of each.

pub mod at_work;
mod block;
pub mod contest;
pub mod evidence;
pub mod heard;
pub mod own_times;
pub mod piece;
pub mod player;
pub mod replay;
pub mod tape;
pub mod told;
