//! The same program under Go's rules and under a policy.

use std::time::Duration;

use gmp_sched::policy::{Policy, PriorityAging};
use gmp_sched::sim::{self, Config};

use super::{Experiment, Log, Paper, in_ms, machine, ms, us};

pub(super) const ALL: &[Experiment] = &[Experiment {
    name: "policy",
    shows: "a server answers requests of 100 us, beside eight Gs that compute, on one P",
    body: policy,
}];

/// Eight Gs that compute send requests to a server. Returns how long each request waited for its answer, in ascending
/// order.
fn serve() -> Vec<Duration> {
    let (requests, incoming) = sim::channel::<Duration>(100);
    let server = sim::Builder::new().name("server").parameter(7).go(move || {
        let answered = incoming.iter().map(|sent| {
            sim::work(us(100));
            sim::elapsed() - sent
        });
        answered.collect::<Vec<_>>()
    });
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let requests = requests.clone();
            sim::Builder::new().name("client").go(move || {
                for _ in 0..25 {
                    sim::work(ms(1));
                    requests.send(sim::elapsed()).expect("the server is there");
                }
            })
        })
        .collect();
    drop(requests);
    clients.into_iter().for_each(|client| client.join().expect("no G panics"));
    let mut waits = server.join().expect("no G panics");
    waits.sort();
    waits
}

fn policy(paper: &mut Paper) {
    let policies: [(&str, Option<&'static dyn Policy>); 2] =
        [("Go's rules", None), ("PriorityAging", Some(&PriorityAging))];
    for (name, policy) in policies {
        let log = Log::new();
        let waits = log.clone();
        let report = paper.trace(Config { policy, ..machine(1) }, move || waits.add(serve()));
        let waits = &log.take()[0];
        let [half, most] = [50, 90].map(|percent| in_ms(waits[waits.len() * percent / 100]));
        paper.line(format!(
            "{name:<14} half within {half:>8}, nine tenths within {most:>8}, all done after {}",
            in_ms(report.elapsed)
        ));
    }
}
