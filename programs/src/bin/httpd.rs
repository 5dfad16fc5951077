//! A small HTTP/1.1 server: `cargo run -- --port 8080:80 httpd`, and then open <http://127.0.0.1:8080/>.
//!
//! `--port N` is the port of the machine (default 80). With `--connections N` the program ends after N connections. The
//! server itself is the module [`programs::httpd`], which says what it serves.

#![no_std]
#![cfg_attr(not(test), no_main)]

use kernel::prelude::*;
use programs::{ServerOptions, httpd};

kernel::main!(main);

fn main(args: &[&str]) -> i32 {
    let Some(options) = ServerOptions::parse("httpd", args, 80) else { return 1 };
    programs::serve("httpd", options, httpd::converse, || println!("httpd: {} requests", httpd::requests()))
}
