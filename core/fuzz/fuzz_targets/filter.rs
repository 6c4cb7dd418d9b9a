//! Any text as a filter: refused with a place in it, or an expression that every connection can be asked.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tcptrace_core::connection::filter::Filter;
use tcptrace_core::connection::{ConnectionTable, Wanted};
use tcptrace_core::wire::{Segment, TcpFlags};

fuzz_target!(|text: &str| {
    let Ok(filter) = Filter::new(text) else {
        return;
    };
    let mut table = ConnectionTable::new(Wanted::None);
    table.push(
        0,
        &Segment {
            flags: TcpFlags::SYN,
            ..Segment::BLANK
        },
    );
    for connection in table.connections() {
        filter.accepts(&connection);
    }
});
