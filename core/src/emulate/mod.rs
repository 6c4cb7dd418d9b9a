//! The same path in real time, between two TUN devices.
