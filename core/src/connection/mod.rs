//! Following TCP: the connection table and, per direction, what the sender did.
