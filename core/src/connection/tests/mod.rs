//! Timelines through the whole table: who sends what when, and what the flows say about it.

mod causes;
mod counts;
mod life;
mod parts;
mod rows;

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};

use super::{Connection, ConnectionTable, End, SegmentColumns, Vantage, Wanted};
use crate::infer::Cause;
use crate::wire::{Checked, Endpoint, SackBlocks, Segment, TcpFlags, TcpOptions};

const MS: i64 = 1_000_000;
const SYN: TcpFlags = TcpFlags::SYN;
const ACK: TcpFlags = TcpFlags::ACK;
const FIN_ACK: TcpFlags = TcpFlags(TcpFlags::FIN.0 | ACK.0);
const SYN_ACK: TcpFlags = TcpFlags(SYN.0 | ACK.0);
const CLIENT_ISN: u32 = 0xffff_f000;
const SERVER_ISN: u32 = 7_000;

fn end(host: u8, port: u16) -> Endpoint {
    Endpoint {
        addr: IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)),
        port,
    }
}

/// A wire between client 10.0.0.1:4000 and server 10.0.0.2:80, tapped at the client.
struct Wire {
    table: ConnectionTable,
    ip_id: u16,
    has_sack: bool,
}

impl Wire {
    fn new() -> Self {
        Self {
            table: ConnectionTable::new(Wanted::All),
            ip_id: 1,
            has_sack: true,
        }
    }

    fn open() -> Self {
        Self::new().opened()
    }

    fn open_without_sack() -> Self {
        let wire = Self {
            has_sack: false,
            ..Self::new()
        };
        wire.opened()
    }

    fn opened(self) -> Self {
        let mut wire = self;
        wire.client(0, SYN, CLIENT_ISN, 0, 0);
        wire.server(50 * MS, SYN_ACK, SERVER_ISN, CLIENT_ISN.wrapping_add(1), 0);
        wire.client(
            50 * MS + 100,
            ACK,
            CLIENT_ISN.wrapping_add(1),
            SERVER_ISN + 1,
            0,
        );
        wire
    }

    fn segment(
        &mut self,
        is_client: bool,
        flags: TcpFlags,
        seq: u32,
        ack: u32,
        len: u32,
    ) -> Segment {
        let (src, dst) = (end(1, 4000), end(2, 80));
        let (src, dst) = if is_client { (src, dst) } else { (dst, src) };
        self.ip_id = self.ip_id.wrapping_add(1);
        let options = TcpOptions {
            mss: flags.has(SYN).then_some(1000),
            wscale: flags.has(SYN).then_some(3),
            sack_permitted: flags.has(SYN) && self.has_sack,
            ..TcpOptions::default()
        };
        Segment {
            src,
            dst,
            seq,
            ack,
            flags,
            window: 1000,
            payload_len: len,
            ip_len: len + 40,
            ip_id: self.ip_id,
            ttl: 64,
            ecn: 0,
            network: 0,
            checked: Checked::Unknown,
            options,
        }
    }

    fn client(&mut self, time: i64, flags: TcpFlags, seq: u32, ack: u32, len: u32) {
        let segment = self.segment(true, flags, seq, ack, len);
        self.table.push(time, &segment);
    }

    fn server(&mut self, time: i64, flags: TcpFlags, seq: u32, ack: u32, len: u32) {
        let segment = self.segment(false, flags, seq, ack, len);
        self.table.push(time, &segment);
    }

    /// Client data at an offset.
    fn data(&mut self, time: i64, offset: u32, len: u32) {
        self.client(
            time,
            ACK,
            CLIENT_ISN.wrapping_add(offset.wrapping_add(1)),
            SERVER_ISN + 1,
            len,
        );
    }

    /// The server's ACK up to an offset, with SACK blocks as offsets.
    fn ack(&mut self, time: i64, offset: u32, sack: &[(u32, u32)]) {
        let wire = |offset: u32| CLIENT_ISN.wrapping_add(offset.wrapping_add(1));
        let mut segment = self.segment(false, ACK, SERVER_ISN + 1, wire(offset), 0);
        let mut edges = [(0, 0); 4];
        for (edge, &(left, right)) in edges.iter_mut().zip(sack) {
            *edge = (wire(left), wire(right));
        }
        segment.options.sack = SackBlocks {
            count: u8::try_from(sack.len()).unwrap(),
            is_cut: false,
            edges,
        };
        self.table.push(time, &segment);
    }

    fn only(&self) -> &Connection {
        assert_eq!(self.table.len(), 1);
        match self.table.connection(0) {
            Some(Cow::Borrowed(connection)) => connection,
            _ => panic!("followed in full"),
        }
    }

    /// What the client sent, with causes and pipe.
    fn segments(&self) -> SegmentColumns {
        let mut connection = self.only().clone();
        let client = connection.client();
        connection.take_tables(client).unwrap().0
    }

    fn causes(&self) -> Vec<&'static str> {
        let names = |&cause: &u8| Cause::ALL[usize::from(cause)].1;
        self.segments().cause.iter().map(names).collect()
    }
}
