//! Which segments were lost, and why each was sent again.

pub mod answer_lost;
pub mod cause;
pub mod lost;
pub mod needless;
pub mod outrun;
pub mod resent;
pub mod sent_again;
