//! Which segments were lost, and why each was sent again.

mod answer_lost;
pub mod cause;
pub mod lost;
mod needless;
mod outrun;
pub mod resent;
pub mod sent_again;
