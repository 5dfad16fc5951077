//! The file of frames that `boot --pcap` writes, in the format that libpcap calls "savefile".

use std::fs;
use std::path::Path;

use super::{boot, serve_once};

/// A frame of the file, and when it was captured, in seconds.
#[derive(Debug)]
struct Frame<'a> {
    bytes: &'a [u8],
    seconds: u32,
}

impl Frame<'_> {
    fn number(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    /// Returns the source port, the destination port and the data of the TCP segment in the frame. Returns `None` if
    /// the frame has no TCP segment over IPv4.
    fn segment(&self) -> Option<(u16, u16, &[u8])> {
        let (is_ipv4, is_tcp) = (self.number(12) == 0x0800, self.bytes[23] == 6);
        if !is_ipv4 || !is_tcp {
            return None;
        }
        let tcp = 14 + usize::from(self.bytes[14] & 15) * 4;
        let end = 14 + usize::from(self.number(16));
        let data = tcp + usize::from(self.bytes[tcp + 12] >> 4) * 4;
        Some((self.number(tcp), self.number(tcp + 2), &self.bytes[data..end]))
    }
}

/// Parses a whole file.
fn frames(file: &[u8]) -> Vec<Frame<'_>> {
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    let (header, mut rest) = file.split_at(24);
    assert_eq!(number(&header[..4]), 0xa1b2_c3d4, "the magic number");
    assert_eq!(header[4..8], [2, 0, 4, 0], "the version");
    assert_eq!(number(&header[20..]), 1, "the link is Ethernet");
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let (head, after) = rest.split_at(16);
        let [seconds, micros, kept, length] = [0, 4, 8, 12].map(|at| number(&head[at..at + 4]));
        assert!(kept == length && micros < 1_000_000, "a frame is cut off");
        let (bytes, after) = after.split_at(kept as usize);
        frames.push(Frame { bytes, seconds });
        rest = after;
    }
    frames
}

#[test]
fn frames_of_a_connection_are_in_the_file() {
    frames_are_in_the_file(&[]);
}

/// While input is recorded, a second QEMU has the network and writes the file.
#[test]
fn frames_of_a_connection_of_a_recorded_run_are_in_the_file() {
    let recording = tempfile::NamedTempFile::new().expect("a file");
    frames_are_in_the_file(&["--icount", "--record-input", recording.path().to_str().expect("a path in UTF-8")]);
}

fn frames_are_in_the_file(options: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    // To include a comma in a name, QEMU requires two commas.
    let file = folder.path().join("a, b:c=d.pcap");
    fs::write(&file, "an old content").expect("written");
    let page = serve_once(10_000);
    let option = format!("--pcap={}", file.display());
    let url = format!("http://10.0.2.2:{page}/page");
    let options = [&["--smp=1", "--net=user", &option], options].concat();
    let output = boot(&options, &["fetch", &url]).output().expect("boot runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let file = fs::read(&file).expect("a file");
    let frames = frames(&file);
    assert!(frames.is_sorted_by_key(|frame| frame.seconds) && frames[0].bytes.len() >= 42);
    let segments: Vec<_> = frames.iter().filter_map(Frame::segment).collect();
    let sent: Vec<u8> =
        segments.iter().filter(|segment| segment.1 == page).flat_map(|segment| segment.2.to_vec()).collect();
    let answer: Vec<u8> =
        segments.iter().filter(|segment| segment.0 == page).flat_map(|segment| segment.2.to_vec()).collect();
    assert!(sent.starts_with(b"GET /page HTTP/1.0\r\n"), "{}", String::from_utf8_lossy(&sent));
    // A segment that was sent twice is in the file twice.
    assert!(answer.starts_with(b"HTTP/1.0 200 OK\r\n") && answer.len() >= 10_000, "{} bytes", answer.len());
}

#[test]
fn file_that_cannot_be_written_is_named_and_none_is_left_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |file: &Path, options: &[&str]| {
        let option = format!("--pcap={}", file.display());
        let output = boot(&[&["--smp=1", &option], options].concat(), &["fetch", "x"]).output().expect("boot runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, said) = refused(&folder.path().join("no/file"), &["--net=user"]);
    assert!(said.contains("cannot write the frames to ") && said.contains("no/file: No such file"), "{said}");
    assert_eq!(status, Some(74));
    // On this device nothing can be written. The program itself succeeds.
    let full = boot(&["--smp=1", "--net=user", "--pcap=/dev/full"], &["squares"]).output().expect("boot runs");
    let said = String::from_utf8_lossy(&full.stderr);
    assert!(said.contains("boot: cannot write the frames to /dev/full: No space left on device"), "{said}");
    assert_eq!(full.status.code(), Some(74), "{said}");
    let (status, said) = refused(&folder.path().join("file"), &[]);
    assert!(said.contains("--pcap: the machine has no network: add --net user, --port or --tap"), "{said}");
    assert_eq!((status, folder.path().read_dir().expect("a folder").count()), (Some(64), 0));
}
