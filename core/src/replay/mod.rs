//! A capture sent through a path of the simulator's nodes, open loop: every recorded packet enters when it was
//! recorded, whatever becomes of the others.
//!
//! The path stands behind the tap. Packets of the near hosts enter `path.nodes`, those of the far hosts `path.reverse`.

mod behind;
mod carrier;
mod entrance;
mod impossible;
mod run;
mod sides;

pub use carrier::{Carrier, Delays, DroppedPacket, Passage, WayTotals};
pub use entrance::{NO_PAIR, Passing};
pub use run::{Counts, Exit, Failed, Finished, run};
pub use sides::{Pair, Sides};
