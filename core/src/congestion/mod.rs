//! Congestion controls as pure state machines: (state, event) -> state.
