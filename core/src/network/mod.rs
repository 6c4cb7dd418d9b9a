//! The network: drop-tail queue, link, path of several nodes.
