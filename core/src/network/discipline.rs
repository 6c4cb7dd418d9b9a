//! Who of those that wait is served: the first, unless a discipline loses it when its turn comes.
//!
//! A queue without one is drop-tail: a packet that found a place is served.

/// The packet whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadOfLine {
    pub waited_ns: i64,
    /// Waiting behind it.
    pub bytes_behind: u64,
}

/// What a discipline sees of a queue, and may do to it.
pub trait Waiting {
    /// `None`: nobody waits.
    fn head(&self) -> Option<HeadOfLine>;
    /// The packet at the head is lost.
    fn lose(&mut self);
}

/// Active queue management at the head of a queue.
pub trait Discipline: std::fmt::Debug + Send + Sync {
    /// The server is free: whoever is at the head afterwards is served.
    fn dequeue(&mut self, now_ns: i64, queue: &mut dyn Waiting);
}
