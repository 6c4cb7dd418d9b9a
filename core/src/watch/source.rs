//! Where packets come from: files one after the other, a pipe, and files that grow while they are read.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use crate::capture::{self, CaptureError, Reader};

/// How often a file that has been read to its end is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Set by whoever no longer wants packets.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Captures that are read as one stream.
pub struct Sources {
    files: Vec<PathBuf>,
    next: usize,
    follows: bool,
    seen: Seen,
    stop: Stop,
}

/// Files that were read, and as of when: one that its writer began anew since is the next of its ring again.
type Seen = HashMap<PathBuf, Option<SystemTime>>;

impl Sources {
    /// With `follows` the last file is read as it grows, and the next ones of its rotation after it.
    pub fn new(files: Vec<PathBuf>, follows: bool, stop: Stop) -> Self {
        let seen = files.iter().map(|path| (path.clone(), modified(path)));
        let seen = seen.collect();
        Self {
            files,
            next: 0,
            follows,
            seen,
            stop,
        }
    }

    /// The next capture; `None`: there is none any more.
    pub fn open_next(&mut self) -> Option<Result<Reader, CaptureError>> {
        let path = self.files.get(self.next)?.clone();
        self.next += 1;
        let is_last = self.next == self.files.len();
        if path.as_os_str() == "-" || !(self.follows && is_last) {
            return Some(capture::open(path));
        }
        let name = path.display().to_string();
        let opened = File::open(&path).map_err(|source| CaptureError::Io {
            file: name.clone(),
            source,
        });
        Some(opened.and_then(|file| {
            let grows = Growing {
                file,
                path,
                seen: self.seen.clone(),
                stop: self.stop.clone(),
            };
            Reader::new(grows, &name)
        }))
    }

    /// After a file that grew has ended: the one that its writer went on with, if it did.
    pub fn find_next(&mut self) {
        if let (true, Some(last)) = (self.follows && !self.stop.is_set(), self.files.last()) {
            // It grew while it was read.
            self.seen.insert(last.clone(), modified(last));
            if let Some(next) = successor(last, &self.seen) {
                self.seen.insert(next.clone(), modified(&next));
                self.files.push(next);
            }
        }
    }
}

/// A file that is still being written: its end is waited for until its writer has gone on with the next file.
struct Growing {
    file: File,
    path: PathBuf,
    seen: Seen,
    stop: Stop,
}

impl Read for Growing {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let is_over = self.stop.is_set() || successor(&self.path, &self.seen).is_some();
            // Looked for before the last read: what was written until then is read first.
            let count = self.file.read(bytes)?;
            if count > 0 || is_over {
                return Ok(count);
            }
            thread::sleep(LOOK_AGAIN);
        }
    }
}

/// The file of the same rotation that was begun next: tcpdump numbers at the end (x.pcap, x.pcap1), dumpcap in the
/// middle (x_00001_20260101120000.pcap).
/// A ring comes back to its first file: `-C 1 -W 3` writes x.pcap0, x.pcap1, x.pcap2, and x.pcap0 anew.
fn successor(path: &Path, seen: &Seen) -> Option<PathBuf> {
    let family = family(path.file_name()?.to_str()?);
    let begun = modified(path)?;
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?;
    let mut found: Vec<(SystemTime, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.ok()?.file_name();
            let other = path.with_file_name(name.clone());
            let is_kin = name
                .to_str()
                .is_some_and(|name| self::family(name) == family);
            let time = modified(&other)?;
            let is_new = seen.get(&other).is_none_or(|&as_of| as_of < Some(time));
            (is_kin && other != path && is_new && time >= begun).then_some((time, other))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).next()
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// A name without its numbers.
fn family(name: &str) -> String {
    let mut family: String = name.chars().filter(|c| !c.is_ascii_digit()).collect();
    while family.contains("__") {
        family = family.replace("__", "_");
    }
    family
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_rotation_differ_in_numbers_only() {
        for (first, second) in [
            ("x.pcap", "x.pcap1"),
            ("x.pcap09", "x.pcap10"),
            ("x_00001_20260101120000.pcap", "x_00002_20260101120100.pcap"),
        ] {
            assert_eq!(family(first), family(second), "{first} {second}");
        }
        assert_ne!(family("x.pcap"), family("y.pcap1"));
    }

    #[test]
    fn a_ring_comes_back_to_the_file_that_is_begun_anew() {
        let folder = std::env::temp_dir().join(format!("ring{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [first, second] = ["x.pcap0", "x.pcap1"].map(|name| folder.join(name));
        let written = |path: &Path, at: u64| {
            let file = File::create(path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(at))
                .unwrap();
        };
        written(&first, 100);
        let mut sources = Sources::new(vec![first.clone()], true, Stop::default());
        sources.find_next();
        assert_eq!(sources.files.len(), 1);
        written(&second, 101);
        sources.find_next();
        // The first is not new: nothing follows the second.
        sources.find_next();
        assert_eq!(sources.files, [first.clone(), second.clone()]);
        written(&first, 102);
        sources.find_next();
        assert_eq!(sources.files, [first.clone(), second, first]);
        fs::remove_dir_all(folder).unwrap();
    }
}
