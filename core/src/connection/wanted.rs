//! What is kept of which connections, and for how long.

use std::collections::BTreeSet;

use super::columns::Keep;

/// Of which connections rows are kept.
#[derive(Clone, Debug, Default)]
pub enum Wanted {
    #[default]
    None,
    /// Tables of both directions.
    All,
    /// Rows of both directions.
    Rows,
    Only(BTreeSet<usize>),
    /// Rows of what the first connection's main sender sent: a guess at what will be asked for.
    First,
    /// Only rows of what these ends (by their place in `Connection::ends`) of these connections sent.
    Ends(BTreeSet<(usize, usize)>),
}

impl Wanted {
    /// For each end of a connection what is kept of the rows that it sent.
    pub(super) fn of(&self, id: usize) -> [Keep; 2] {
        let kept = |is_wanted, keep| if is_wanted { keep } else { Keep::Nothing };
        match self {
            Self::None => [Keep::Nothing; 2],
            Self::All => [Keep::Tables; 2],
            Self::Rows => [Keep::Rows; 2],
            Self::First => [kept(id == 0, Keep::Rows); 2],
            Self::Only(ids) => [kept(ids.contains(&id), Keep::Tables); 2],
            Self::Ends(ends) => [0, 1].map(|from| kept(ends.contains(&(id, from)), Keep::Rows)),
        }
    }
}

/// When a connection may leave a table that is read on the way (`Table::leave`), in capture time.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// After its end: what may still come is the retransmission of a FIN or a reset (RFC 9293's 2 MSL).
    pub closed_ns: i64,
    /// Without an end.
    pub idle_ns: i64,
}
