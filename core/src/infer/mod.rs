//! Inference: a capture's ACKs and losses through congestion and recovery.
