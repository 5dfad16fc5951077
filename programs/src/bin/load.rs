//! Loads a web server, and prints how fast it answers: `load http://10.0.2.2:8000/ --connections 32 --requests 10000`.
//!
//! Each connection has a G, which sends a request, waits for the answer, and sends the next request over the same
//! connection, until all Gs together have sent as many requests as wanted. So the server has as many requests at the same
//! time as there are connections. Before the measurement, the connections are made one after the other, and each gets one
//! answer, because a server may have room for only few connections that it has not accepted (QEMU's user network, for
//! example).
//!
//! With `--body BYTES` each request is a `POST` of this many zeros. With `--close` each request has a connection of its own,
//! and its time includes making the connection.
//!
//! With `--rate N` there are N requests a second, at equal distances, to measure latencies below the full load. The time of
//! a request begins when it should be sent. If it is sent later, because all connections still wait for answers, the delay
//! counts, too.

#![no_std]
#![cfg_attr(not(test), no_main)]

use core::sync::atomic::{AtomicUsize, Ordering};

use kernel::net::TcpStream;
use kernel::prelude::*;
use programs::http::{HEAD_BYTES, connect, exchange, parse_url};

kernel::main!(main);

/// The largest numbers of connections and of requests.
const CONNECTIONS: usize = 10_000;
const REQUESTS: usize = 10_000_000;
/// The largest number of requests a second.
const RATE: usize = 1_000_000;
/// The largest body of a request.
const BODY: usize = 1 << 30;

const USAGE: &str =
    "usage: load http://HOST[:PORT][/PATH] [--connections N] [--requests N] [--body BYTES] [--close] [--rate N]";

#[derive(Clone, PartialEq, Eq, Debug)]
struct Order {
    host: String,
    /// The request, as it is sent.
    request: String,
    connections: usize,
    requests: usize,
    /// How many requests there are in a second. Without it, as many as possible.
    rate: Option<usize>,
}

fn main(args: &[&str]) -> i32 {
    let order = match parse(args) {
        Ok(order) => order,
        Err(mistake) => {
            eprintln!("load: {mistake}");
            return 1;
        }
    };
    let streams = match (0..order.connections).map(|_| warm_up(&order)).collect() {
        Ok(streams) => streams,
        Err(error) => {
            eprintln!("load: {error}");
            return 1;
        }
    };
    let begin = now();
    let (mut latencies, errors) = run(&order, streams);
    let seconds = (now() - begin).as_secs_f64();
    latencies.sort_unstable();
    let (answers, connections) = (latencies.len(), order.connections);
    let rate = answers as f64 / seconds;
    println!("load: {answers} requests over {connections} connections in {seconds:.2} s: {rate:.0} requests/s");
    print!("{}", histogram(&latencies));
    // Each G stops at its first error. Usually most Gs have the same error, so only the first one is printed.
    let first = errors.first().map(|error| format!("load: {} connections failed, the first: {error}", errors.len()));
    first.iter().for_each(|line| eprintln!("{line}"));
    i32::from(first.is_some())
}

fn parse(args: &[&str]) -> Result<Order, String> {
    let (url, options) = args.split_first().ok_or(USAGE)?;
    let (host, path) = parse_url(url).map_err(|mistake| format!("{url}: {mistake}"))?;
    let (mut connections, mut requests, mut body, mut closes, mut rate) = (8, 1000, None, false, None);
    let mut options = options.iter();
    while let Some(&option) = options.next() {
        let mut number = |most| {
            let parsed = options.next().ok_or(USAGE)?.parse().ok().filter(|wanted| (1..=most).contains(wanted));
            parsed.ok_or_else(|| format!("{option}: expected a number from 1 to {most}"))
        };
        match option {
            "--connections" => connections = number(CONNECTIONS)?,
            "--requests" => requests = number(REQUESTS)?,
            "--body" => body = Some(number(BODY)?),
            "--close" => closes = true,
            "--rate" => rate = Some(number(RATE)?),
            _ => return Err(USAGE.into()),
        }
    }
    let method = if body.is_some() { "POST" } else { "GET" };
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n");
    if let Some(bytes) = body {
        request += &format!("Content-Length: {bytes}\r\n");
    }
    request += if closes { "Connection: close\r\n\r\n" } else { "\r\n" };
    request += &"\0".repeat(body.unwrap_or(0));
    Ok(Order { host, request, connections, requests, rate })
}

/// Connects, and exchanges one request. Returns the connection if the server keeps it.
fn warm_up(order: &Order) -> Result<Option<TcpStream>, String> {
    let stream = connect(&order.host).map_err(|error| error.to_string())?;
    let head = exchange(&stream, &order.request, &mut vec![0; HEAD_BYTES])?;
    Ok(head.keeps.then_some(stream))
}

/// Sends the requests over these connections. Returns how long each answer has taken, and the errors.
fn run(order: &Order, streams: Vec<Option<TcpStream>>) -> (Vec<Duration>, Vec<String>) {
    let (sent, latencies, errors) = (&AtomicUsize::new(0), Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let first = now();
    scope(|scope| {
        for stream in streams {
            let (latencies, errors) = (&latencies, &errors);
            scope.go(move || {
                let mut own = Vec::new();
                if let Err(error) = converse(order, stream, first, sent, &mut own) {
                    errors.lock().push(error);
                }
                latencies.lock().append(&mut own);
            });
        }
    });
    (latencies.into_inner(), errors.into_inner())
}

/// Sends requests, until all Gs together have sent as many as wanted. With a rate, the first of them is sent at the time
/// `first`. If the server ends the connection after an answer, connects again.
fn converse(
    order: &Order,
    mut stream: Option<TcpStream>,
    first: Instant,
    sent: &AtomicUsize,
    latencies: &mut Vec<Duration>,
) -> Result<(), String> {
    let mut buffer = vec![0; HEAD_BYTES];
    loop {
        let number = sent.fetch_add(1, Ordering::Relaxed);
        if number >= order.requests {
            return Ok(());
        }
        let begin = match order.rate {
            Some(rate) => first + Duration::from_secs(number as u64) / rate as u32,
            None => now(),
        };
        sleep(begin - now());
        let kept = match stream.take() {
            Some(stream) => stream,
            None => connect(&order.host).map_err(|error| error.to_string())?,
        };
        let head = exchange(&kept, &order.request, &mut buffer)?;
        latencies.push(now() - begin);
        stream = head.keeps.then_some(kept);
    }
}

/// Returns the latency that `percent` percent of the answers did not exceed. `latencies` is in ascending order and not empty.
fn percentile(latencies: &[Duration], percent: usize) -> Duration {
    latencies[(latencies.len() * percent).div_ceil(100).clamp(1, latencies.len()) - 1]
}

/// Describes latencies, which are in ascending order. Each line of the histogram counts those between two powers of two of
/// a microsecond.
fn histogram(latencies: &[Duration]) -> String {
    /// The length of the longest bar.
    const BAR: usize = 40;
    let [Some(least), Some(most)] = [latencies.first(), latencies.last()] else { return String::new() };
    let [median, high] = [50, 99].map(|percent| percentile(latencies, percent));
    let mut text = format!("latency: p50 {median:.1?}, p99 {high:.1?}, longest {most:.1?}\n");
    let bucket = |latency: &Duration| latency.as_micros().max(1).ilog2();
    let count = |of: u32| latencies.iter().filter(|latency| bucket(latency) == of).count();
    let counts: Vec<_> = (bucket(least)..=bucket(most)).map(|of| (of, count(of))).collect();
    let highest = counts.iter().map(|&(_, count)| count).max().unwrap_or(1);
    for (of, count) in counts {
        let bar = "#".repeat((count * BAR).div_ceil(highest));
        text += &format!("{:>9} {count:>8} {bar}\n", format!("< {:.0?}", Duration::from_micros(2 << of)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_checked() {
        let order = parse(&["http://a/b", "--requests", "5"]).expect("right use");
        assert_eq!((&*order.host, order.connections, order.requests), ("a:80", 8, 5));
        assert_eq!(order.request, "GET /b HTTP/1.1\r\nHost: a:80\r\n\r\n");
        assert_eq!(order.rate, None);
        assert_eq!(parse(&["http://a", "--rate", "100"]).map(|order| order.rate), Ok(Some(100)));
        let order = parse(&["http://a", "--close", "--body", "2"]).expect("right use");
        let head = "POST / HTTP/1.1\r\nHost: a:80\r\nContent-Length: 2\r\nConnection: close\r\n\r\n";
        assert_eq!(order.request, format!("{head}\0\0"));
        for (args, mistake) in [
            (&[][..], USAGE),
            (&["http://a", "--connections"], USAGE),
            (&["http://a", "--connection", "1"], USAGE),
            (&["http://a", "--connections", "0"], "--connections: expected a number from 1 to 10000"),
            (&["http://a", "--requests", "many"], "--requests: expected a number from 1 to 10000000"),
            (&["http://a", "--close", "--body", "0"], "--body: expected a number from 1 to 1073741824"),
            (&["https://a"], "https://a: there is no TLS, so only http is possible"),
        ] {
            assert_eq!(parse(args), Err(mistake.to_owned()));
        }
    }

    #[test]
    fn histogram_has_a_bar_for_each_power_of_two() {
        let mut latencies = vec![Duration::from_micros(3); 98];
        latencies.extend([Duration::from_micros(4), Duration::from_micros(20)]);
        assert_eq!(percentile(&latencies, 50), Duration::from_micros(3));
        assert_eq!(percentile(&latencies, 99), Duration::from_micros(4));
        let bar = "#".repeat(40);
        let expected = format!(
            "latency: p50 3.0µs, p99 4.0µs, longest 20.0µs\n    < 4µs       98 {bar}\n    < 8µs        1 #\n   \
             < 16µs        0 \n   < 32µs        1 #\n"
        );
        assert_eq!(histogram(&latencies), expected);
        assert_eq!(histogram(&[]), "");
    }
}
