//! The memory of connections. This test is alone in its process, because it counts the memory of all connections.

#[path = "shared/guarded.rs"]
mod guarded;

use std::net::Ipv4Addr;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Duration;

use gmp_sched::cancel::Limit;
use gmp_sched::native::{self, Native, go, sleep};
use kernel_net::{Configuration, Loopback, PAGE_BYTES, ROOM_PAGES, Room};

static STACK: OnceLock<kernel_net::Stack<Native>> = OnceLock::new();

/// Only the connections that were used last keep memory for data that they do not have.
#[test]
fn connections_that_are_idle_keep_no_memory_for_data() {
    const CONNECTIONS: usize = 500;
    // SAFETY: the threads of the test stay alive until the process ends.
    let machine = unsafe { native::enter() };
    machine.run(1, || {
        let configuration = Configuration { address: Some((Ipv4Addr::LOCALHOST, 8)), ..Configuration::default() };
        let link = Box::leak(Box::new(Loopback::new()));
        let made = kernel_net::Stack::new(link, guarded::make, &configuration).map_err(drop);
        let stack = STACK.get_or_init(|| made.expect("memory"));
        go(move || stack.serve(0)).detach();
        let listener = kernel_net::TcpListener::bind_on(stack, "127.0.0.1:0").unwrap();
        let make_and_use = |_| {
            let near = kernel_net::TcpStream::connect_on(stack, listener.local_addr(), Limit::NONE).unwrap();
            let (far, _) = listener.accept().unwrap();
            for (from, to) in [(&near, &far), (&far, &near)] {
                from.write_all(b"data").unwrap();
                assert_eq!(to.read(&mut [0; 9]), Ok(4));
            }
            [near, far]
        };
        let streams: Vec<_> = (0..CONNECTIONS).map(make_and_use).collect();
        // The memory of data that is not acknowledged is kept, so wait for the acknowledgements.
        sleep(Duration::from_millis(100));
        let pages = guarded::COMMITTED.load(Ordering::Relaxed);
        assert!(pages < CONNECTIONS, "{pages} pages for {} ends", 2 * CONNECTIONS);
        for [near, far] in &streams {
            near.write_all(b"again").unwrap();
            assert_eq!(far.read(&mut [0; 9]), Ok(5));
        }
    });
}
