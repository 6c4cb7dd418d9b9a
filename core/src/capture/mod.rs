//! Captures: bytes to records and back (pcap, pcapng; gzip and zstd seen through).
