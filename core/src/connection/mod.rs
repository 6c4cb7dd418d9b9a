//! Following TCP: the connection table and, per direction, what the sender did.

mod acking;
mod brief;
mod cells;
mod columns;
#[expect(
    clippy::module_inception,
    reason = "the folder follows connections; the file is one"
)]
mod connection;
mod counts;
mod detail;
pub mod filter;
mod flow;
mod follow;
mod intervals;
pub mod json;
mod outstanding;
mod packet;
mod parts;
mod pipeline;
mod sending;
mod sequence;
mod shortcuts;
mod sides;
mod slots;
pub mod summary;
mod table;
mod traced;
mod wanted;

pub use columns::{AckColumns, Keep, SegmentColumns};
pub use connection::{Connection, End, Vantage};
pub use counts::FlowCounts;
pub use detail::swapped_ns;
pub use flow::Flow;
pub use follow::{Followed, follow, follow_by_row};
pub use intervals::IntervalSet;
pub use packet::TcpPacket;
pub use sequence::{is_later, unwrap, wrap};
pub use table::ConnectionTable;
pub use traced::ShownRows;
pub use wanted::{Patience, Wanted};

#[cfg(test)]
mod tests;
