//! Tests of the program `chat`, a chat room on the machine. Its members are clients on the host.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::net::{Shutdown, TcpStream};

use super::Server;

/// Enters the room as `name`. Returns the connection of this member, and the lines that the member hears from then on.
fn enter(machine: &Server, name: &str) -> (TcpStream, Lines<BufReader<TcpStream>>) {
    let mut stream = machine.connect();
    let mut heard = BufReader::new(stream.try_clone().expect("another handle")).lines();
    assert_eq!(heard.next().expect("a question").expect("text"), "What is your name?");
    writeln!(stream, "{name}").expect("the machine reads");
    assert_eq!(heard.next().expect("a line").expect("text"), format!("* {name} enters"));
    (stream, heard)
}

/// One member never reads what the others say. This must not stop the others.
#[test]
fn members_hear_each_other_in_order() {
    const LINES: usize = 200;
    let machine = Server::start(&["--smp=2"], ("chat", 7000), 3);
    let (mut ann, mut ann_hears) = enter(&machine, "Ann");
    let (silent, _) = enter(&machine, "Silent");
    let (mut bob, mut bob_hears) = enter(&machine, "Bob");
    assert_eq!(ann_hears.next().expect("a line").expect("text"), "* Silent enters");
    assert_eq!(ann_hears.next().expect("a line").expect("text"), "* Bob enters");
    for number in 0..LINES {
        let speaker = if number % 2 == 0 { &mut ann } else { &mut bob };
        let name = if number % 2 == 0 { "Ann" } else { "Bob" };
        write!(speaker, "number \t{number}\r\n").expect("the machine reads");
        for heard in [&mut ann_hears, &mut bob_hears] {
            assert_eq!(heard.next().expect("a line").expect("text"), format!("{name}: number {number}"));
        }
    }
    ann.shutdown(Shutdown::Write).expect("the end");
    assert_eq!(bob_hears.next().expect("a line").expect("text"), "* Ann leaves");
    assert!(ann_hears.next().is_none_or(|last| last.is_ok_and(|line| line == "* Ann leaves")));
    // A line that is too long ends the connection.
    bob.write_all(&[b'x'; 512]).expect("the machine reads");
    assert_eq!(bob_hears.by_ref().map_while(Result::ok).last(), None);
    drop(silent);
    machine.end("chat: 0 members left\n");
}
