//! Prints what a web server sends for a URL: `cargo run -- --net user fetch http://10.0.2.2:8000/`. In QEMU's user
//! network, 10.0.2.2 is the host. There is no TLS.

#![no_std]
#![cfg_attr(not(test), no_main)]

use kernel::net::NetError;
use kernel::prelude::*;
use programs::http::{HEAD_BYTES, PATIENCE, connect, parse_head, parse_url};

kernel::main!(main);

fn main(args: &[&str]) -> i32 {
    let [url] = args else {
        eprintln!("usage: fetch http://HOST[:PORT][/PATH]");
        return 1;
    };
    match parse_url(url).and_then(|(host, path)| fetch(&host, path)) {
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

/// Prints the body of the answer, and returns its status.
fn fetch(host: &str, path: &str) -> Result<u16, String> {
    let failed = |error: NetError| error.to_string();
    let stream = connect(host).map_err(failed)?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n");
    stream.write_all_until(request.as_bytes(), now() + PATIENCE).map_err(failed)?;
    let (mut buffer, mut filled, mut status) = (vec![0; HEAD_BYTES], 0, None);
    loop {
        let count = stream.read_until(&mut buffer[filled..], now() + PATIENCE).map_err(failed)?;
        if count == 0 {
            return status.ok_or_else(|| "the answer has no head".into());
        }
        filled += count;
        if status.is_none() {
            let Some(head) = parse_head(&buffer[..filled])? else {
                if filled == buffer.len() {
                    return Err("the head of the answer is too large".into());
                }
                continue;
            };
            status = Some(head.status);
            buffer.copy_within(head.bytes..filled, 0);
            filled -= head.bytes;
        }
        print!("{}", String::from_utf8_lossy(&buffer[..filled]));
        filled = 0;
    }
}
