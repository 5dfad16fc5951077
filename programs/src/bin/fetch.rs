//! Prints what a web server sends for a URL: `cargo run -- --net user fetch http://10.0.2.2:8000/`. In QEMU's user
//! network, 10.0.2.2 is the host. There is no TLS.

#![no_std]
#![cfg_attr(not(test), no_main)]

use kernel::console::write;
use kernel::net::NetError;
use kernel::prelude::*;
use programs::http::{HEAD_BYTES, PATIENCE, connect, parse_head, parse_url};

kernel::main!(main);

fn main(args: &[&str]) -> i32 {
    let [url] = args else {
        eprintln!("usage: fetch http://HOST[:PORT][/PATH]");
        return 1;
    };
    let print = |part: &[u8]| _ = write(part);
    match parse_url(url).and_then(|(host, path)| fetch(&host, path, print)) {
        Ok(200) => 0,
        Ok(status) => {
            eprintln!("fetch: {url}: the server answers with the status {status}");
            1
        }
        Err(mistake) => {
            eprintln!("fetch: {url}: {mistake}");
            1
        }
    }
}

/// Passes the parts of the answer's body to `print`, and returns the status of the answer.
fn fetch(host: &str, path: &str, print: impl Fn(&[u8])) -> Result<u16, String> {
    let failed = |error: NetError| error.to_string();
    let stream = connect(host).map_err(failed)?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n");
    stream.write_all_until(request.as_bytes(), now() + PATIENCE).map_err(failed)?;
    let (mut buffer, mut filled) = (vec![0; HEAD_BYTES], 0);
    let read = |buffer: &mut [u8]| stream.read_until(buffer, now() + PATIENCE).map_err(failed);
    let head = loop {
        if let Some(head) = parse_head(&buffer[..filled])? {
            break head;
        }
        match read(&mut buffer[filled..])? {
            0 if filled == buffer.len() => return Err("the head of the answer is too large".into()),
            0 => return Err("the answer has no head".into()),
            count => filled += count,
        }
    };
    let mut printed = filled - head.bytes;
    print(&buffer[head.bytes..filled]);
    loop {
        match read(&mut buffer)? {
            0 if head.length.is_some_and(|length| printed < length) => return Err("the answer ends too early".into()),
            0 => return Ok(head.status),
            count => {
                print(&buffer[..count]);
                printed += count;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kernel::net::TcpListener;

    use super::*;

    #[test]
    fn body_is_passed_on_byte_for_byte_and_an_end_that_is_too_early_is_an_error() {
        kernel::run!(|| {
            let body: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let host = format!("127.0.0.1:{}", listener.local_addr().port());
            let answer = body.clone();
            let server = go(move || {
                for missing in [0, 1] {
                    let (stream, _) = listener.accept().expect("a client");
                    assert_ne!(stream.read(&mut [0; 1000]), Ok(0));
                    let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", answer.len());
                    stream.write_all(head.as_bytes()).expect("a client");
                    stream.write_all(&answer[missing..]).expect("a client");
                }
            });
            let printed = Mutex::new(Vec::new());
            let print = |part: &[u8]| printed.lock().extend_from_slice(part);
            assert_eq!(fetch(&host, "/", print), Ok(200));
            assert!(*printed.lock() == body);
            assert_eq!(fetch(&host, "/", |_| ()), Err("the answer ends too early".into()));
            server.join().expect("it ends");
        });
    }
}
