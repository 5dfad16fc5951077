//! A room in which people talk: `cargo run -- --port 7000:7000 chat`, and then `nc 127.0.0.1 7000` in two terminals.
//!
//! ```text
//!   Ann ──▶ the G that reads ──▶ the room ──▶ a channel for each member ──▶ the G that writes ──▶ Ann, Bob, …
//! ```
//!
//! Each member has a G that reads what the member types, and a G that writes what all members say. Between them is the
//! member's channel. A G that reads never waits for another member: if a channel is full, because its member does not read,
//! the member loses lines, and is told how many. So a slow member does not stop the others, and one who talks too much
//! does not disconnect the others.
//!
//! `--port N` is the port of the machine (default 7000). With `--connections N` the program ends after N connections.

#![no_std]
#![cfg_attr(not(test), no_main)]

use kernel::interrupted;
use kernel::net::{NetError, Shutdown, TcpStream};
use kernel::platform::Limit;
use kernel::prelude::*;
use programs::ServerOptions;

kernel::main!(main);

/// The longest line, and the longest name.
const LINE_BYTES: usize = 512;
const NAME_CHARS: usize = 32;
/// How many lines may wait for a member, how many bytes of them are written at once, and how long that may take.
const BACKLOG: usize = 64;
const BATCH_BYTES: usize = 16 * 1024;
const PATIENCE: Duration = Duration::from_secs(10);

static ROOM: Room = Room { members: Mutex::new(Members { next: 0, all: Vec::new() }) };

fn main(args: &[&str]) -> i32 {
    let Some(options) = ServerOptions::parse("chat", args, 7000) else { return 1 };
    programs::serve("chat", options, converse, || println!("chat: {} members left", ROOM.members.lock().all.len()))
}

struct Room {
    members: Mutex<Members>,
}

struct Members {
    /// The number of the next member.
    next: u64,
    all: Vec<Member>,
}

struct Member {
    number: u64,
    sender: Sender<Arc<str>>,
    /// How many lines the member has lost since the last one that was sent.
    lost: u64,
}

impl Room {
    fn enter(&self, sender: Sender<Arc<str>>) -> u64 {
        let mut members = self.members.lock();
        let number = members.next;
        members.next += 1;
        members.all.push(Member { number, sender, lost: 0 });
        number
    }

    /// Sends a line to all members whose channels have room.
    fn say(&self, line: &str) {
        let line = Arc::from(line);
        for Member { sender, lost, .. } in &mut self.members.lock().all {
            if *lost != 0 && sender.try_send(format!("* {lost} lines lost\n").into()).is_ok() {
                *lost = 0;
            }
            *lost += u64::from(sender.try_send(Arc::clone(&line)).is_err());
        }
    }

    /// Ends the member's channel.
    fn leave(&self, number: u64) {
        self.members.lock().all.retain(|member| member.number != number);
    }
}

/// Lets a member talk, until the end of its input.
fn converse(stream: &TcpStream) -> Result<(), NetError> {
    stream.write_all_until(b"What is your name?\n", Limit::after(PATIENCE))?;
    let mut lines = Lines { stream, buffer: Vec::new() };
    let Some(mut name) = lines.next()? else { return Ok(()) };
    name = name.chars().take(NAME_CHARS).collect();
    let (sender, receiver) = channel(BACKLOG);
    let number = ROOM.enter(sender);
    scope(|scope| {
        scope.go(|| write(stream, &receiver));
        ROOM.say(&format!("* {name} enters\n"));
        let result = read(&mut lines, &name);
        // Ends the channel, and with it the G that writes, for which the scope waits.
        ROOM.leave(number);
        ROOM.say(&format!("* {name} leaves\n"));
        result
    })
}

/// Passes on what a member types.
fn read(lines: &mut Lines<'_>, name: &str) -> Result<(), NetError> {
    while let Some(line) = lines.next()? {
        if !line.is_empty() {
            ROOM.say(&format!("{name}: {line}\n"));
        }
    }
    Ok(())
}

/// Writes what the members say, until the channel ends or the member does not read. Then ends the connection, so that the G
/// that reads ends, too.
fn write(stream: &TcpStream, lines: &Receiver<Arc<str>>) {
    for line in lines {
        let mut text = String::from(&*line);
        while text.len() < BATCH_BYTES
            && let Ok(line) = lines.try_recv()
        {
            text += &line;
        }
        if stream.write_all_until(text.as_bytes(), Limit::after(PATIENCE)).is_err() {
            break;
        }
    }
    // The connection may have ended already.
    let _ = stream.shutdown(Shutdown::Both);
}

/// The lines that arrive over a connection.
struct Lines<'a> {
    stream: &'a TcpStream,
    /// What has arrived after the last line that was returned.
    buffer: Vec<u8>,
}

impl Lines<'_> {
    /// Returns the next line without its end, or `None` after the last one. A line that is too long ends the connection.
    fn next(&mut self) -> Result<Option<String>, NetError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Ok(Some(clean(&line)));
            }
            let filled = self.buffer.len();
            if filled >= LINE_BYTES {
                return Ok(None);
            }
            self.buffer.resize(LINE_BYTES, 0);
            let read = self.stream.read_until(&mut self.buffer[filled..], interrupted());
            self.buffer.truncate(filled + *read.as_ref().unwrap_or(&0));
            if read? == 0 {
                return Ok(None);
            }
        }
    }
}

/// Returns a line without control characters, which could change the terminals of others.
fn clean(line: &[u8]) -> String {
    String::from_utf8_lossy(line).chars().filter(|character| !character.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_left_out() {
        assert_eq!(clean(b"a\x1b[2Jb\tc\r\n"), "a[2Jbc");
        assert_eq!(clean(b"\xff gr\xc3\xbc\xc3\x9fe\n"), "\u{fffd} grüße");
    }

    #[test]
    fn member_who_does_not_read_loses_lines_and_the_others_lose_none() {
        kernel::run!(|| {
            let room = Room { members: Mutex::new(Members { next: 0, all: Vec::new() }) };
            let (slow, reader) = (channel(BACKLOG), channel(BACKLOG));
            let number = room.enter(slow.0);
            room.enter(reader.0);
            let said = |count| {
                let line = format!("{count}\n");
                room.say(&line);
                assert_eq!(reader.1.try_recv().as_deref(), Ok(&*line));
            };
            (0..BACKLOG + 3).for_each(said);
            // What was said first is still there.
            assert_eq!((0..BACKLOG).map_while(|_| slow.1.try_recv().ok()).count(), BACKLOG);
            said(100);
            assert_eq!(slow.1.try_recv().as_deref(), Ok("* 3 lines lost\n"));
            assert_eq!(slow.1.try_recv().as_deref(), Ok("100\n"));
            room.leave(number);
            assert!(slow.1.recv().is_err());
        });
    }
}
