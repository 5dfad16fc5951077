//! Tests of SIGINT, the signal of Ctrl-C: a server finishes what it has begun, and then ends.

use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::sync::Once;
use std::thread;

use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::Server;

/// Makes sure that the child processes do not ignore SIGINT. A shell may start this process in the background with
/// SIGINT ignored, and the children would inherit this. If this process has a handler, its children begin with the
/// default action instead, because handlers are not inherited. The handler itself performs the default action.
fn let_children_be_interrupted() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut signals = Signals::new([SIGINT]).expect("a handler");
        thread::spawn(move || {
            for signal in signals.forever() {
                emulate_default_handler(signal).expect("SIGINT has a default");
            }
        });
    });
}

/// A server, and two clients: one that keeps its connection, and one that looks at the live page.
fn ends_after_an_interrupt(mut server: Server) {
    let (mut idle, mut viewer) = (server.connect(), server.connect());
    idle.write_all(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n").expect("the server listens");
    viewer.write_all(b"GET /sched/events HTTP/1.1\r\nHost: x\r\n\r\n").expect("the server listens");
    for stream in [&mut idle, &mut viewer] {
        assert_ne!(stream.read(&mut [0; 4096]).expect("an answer"), 0);
    }
    interrupt(&server);
    for mut stream in [idle, viewer] {
        stream.read_to_end(&mut Vec::new()).expect("the end of the connection");
    }
    let mut said = String::new();
    server.output.read_to_string(&mut said).expect("text");
    assert_eq!(said, "httpd: 2 requests\n");
    assert_eq!(server.boot.0.wait().expect("it ends").code(), Some(0));
}

fn interrupt(server: &Server) {
    let process = server.boot.0.id().to_string();
    assert!(Command::new("kill").args(["-INT", &process]).status().expect("`kill` runs").success());
}

#[test]
fn server_on_the_machine_ends_after_an_interrupt() {
    let_children_be_interrupted();
    ends_after_an_interrupt(Server::start(&["--smp=2"], ("httpd", 80), 100));
}

#[test]
fn server_on_the_host_ends_after_an_interrupt() {
    let_children_be_interrupted();
    ends_after_an_interrupt(Server::on_host("httpd", 100));
}

/// A client has sent only the beginning of a request. The server waits for the rest, but `boot` ends the machine two
/// seconds after the interrupt.
#[test]
fn server_that_takes_too_long_is_ended() {
    let_children_be_interrupted();
    let mut server = Server::start(&["--smp=1"], ("httpd", 80), 100);
    let mut client = server.connect();
    client.write_all(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\nHEAD / HT").expect("the machine listens");
    assert_ne!(client.read(&mut [0; 4096]).expect("an answer"), 0);
    interrupt(&server);
    let status = server.boot.0.wait().expect("boot ends");
    assert_eq!((status.code(), status.signal()), (None, Some(2)));
}
