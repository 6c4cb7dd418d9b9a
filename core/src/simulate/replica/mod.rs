//! Replicas of programs: they do what that program does, event for event, where the documents say otherwise too.

pub mod ns2;
