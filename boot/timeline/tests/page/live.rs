//! The live page of the scheduler that the program `httpd` serves. Here it gets its events from the test.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use libtest_mimic::Failed;

use crate::browser::Browser;

const PAGE: &str = include_str!("../../../../programs/src/httpd/sched.html");
/// How many events are sent each time the page is opened.
const EVENTS: u64 = 20;

/// The `number`-th event of two Ps. P0 runs G7, with a queue of 4, and was busy in half of the observations; P1 is idle.
fn event(number: u64) -> String {
    let (when, observations, busy) = (number * 200_000_000, number * 10, number * 5);
    format!(
        "data: {{\"when\":{when},\"observations\":{observations},\"queueAndMachines\":[3, 5, 2, 1],\
         \"goroutines\":[1, 4, 0, 1500],\"totals\":[{}, 0, 0, 0, 0, {number}],\"server\":[14336, 2, 99],\
         \"processors\":[[1, 7, 4, {busy}], [0, 0, 0, 0]]}}\n\n",
        number * 5000,
    )
}

/// Answers a request. Returns whether it was one for work.
fn answer(mut stream: TcpStream) -> std::io::Result<bool> {
    let mut lines = BufReader::new(stream.try_clone()?).lines().map_while(Result::ok);
    let first = lines.next().unwrap_or_default();
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    match &*first {
        "GET /sched HTTP/1.1" => {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n{PAGE}")?;
        }
        "GET /sched/events HTTP/1.1" => {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")?;
            (0..EVENTS).try_for_each(|number| stream.write_all(event(number).as_bytes()))?;
            // The stream of events does not end as long as the page is open.
            thread::sleep(Duration::from_secs(600));
        }
        _ => write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?,
    }
    Ok(first == "POST /sched/work HTTP/1.1")
}

/// Serves the page. Returns its address, and how many requests for work there were.
fn serve() -> Result<(String, Arc<AtomicUsize>), Failed> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = format!("http://{}/sched", listener.local_addr()?);
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = requests.clone();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let counter = counter.clone();
            thread::spawn(move || {
                if answer(stream).is_ok_and(|was_for_work| was_for_work) {
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    Ok((address, requests))
}

/// Waits until an expression is true in the page.
fn wait_until(browser: &mut Browser, condition: &str) -> Result<(), Failed> {
    let script = format!("(async () => {{ while (!({condition})) await new Promise(requestAnimationFrame); }})()");
    browser.evaluate(&script).map(drop)
}

pub(crate) fn events(browser: &mut Browser, theme: &str) -> Result<(), Failed> {
    let (address, requests) = serve()?;
    browser.prefer(theme)?;
    for width in [1280, 390] {
        browser.resize((width, 844))?;
        browser.visit(&address)?;
        wait_until(browser, &format!("past.length === {}", EVENTS - 1))?;
        // The page is no wider than the window, and its text has some contrast to its background.
        let root = "document.documentElement";
        assert_eq!(browser.evaluate(&format!("{root}.scrollWidth - {root}.clientWidth"))?, 0);
        let brightness = "(colour) => colour.match(/[0-9]+/g).reduce((sum, part) => sum + Number(part), 0) / 765";
        let page = browser.evaluate(&format!("({brightness})(getComputedStyle(document.body).backgroundColor)"))?;
        let text = browser.evaluate(&format!("({brightness})(getComputedStyle(element('state')).color)"))?;
        let (page, text) = (page.as_f64().unwrap_or_default(), text.as_f64().unwrap_or_default());
        assert!((page > 0.5) == (theme == "light") && (page - text).abs() > 0.4, "{page}, {text}");
        let shown = browser.evaluate("document.body.innerText")?;
        let shown = shown.as_str().ok_or("no text")?;
        let lines: Vec<_> = shown.split('\n').map(str::trim).collect();
        for part in ["P0 G7", "50 %, 4 G", "P1 idle", "0 %, 0 G", "14 µs", "25,000", "Gs by state: 1505 in all"] {
            assert!(lines.contains(&part), "{part} is not in {shown}");
        }
        // The middle of the history of P0 is empty. At the end of the history, P0 is busy.
        let pixel = "(share) => { const c = document.querySelector('#processors canvas'); return [...c.getContext('2d')\
                     .getImageData(Math.min(c.width - 1, c.width * share), c.height - 2, 1, 1).data]; }";
        let [before, now] = ["0.5", "1"].map(|share| browser.evaluate(&format!("({pixel})({share})")));
        assert!(before?[3] == 0 && now?[3] == 255);
    }
    browser.press("w")?;
    browser.press(" ")?;
    wait_until(browser, "element('state').textContent === 'Paused'")?;
    assert_eq!(browser.evaluate("element('pause').getAttribute('aria-pressed')")?, "true");
    browser.press(" ")?;
    wait_until(browser, "element('pause').getAttribute('aria-pressed') === 'false'")?;
    wait_until(browser, "performance.getEntriesByName(new URL('/sched/work', location).href)[0]?.responseEnd > 0")?;
    assert_eq!(requests.load(Ordering::Relaxed), 1);
    Ok(())
}
