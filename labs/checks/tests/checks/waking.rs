//! Lab 4: parking, readying and going idle, on simulated machines. (loom's models judge the fences.)

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gmp_sched::sim::{self, Report};

use crate::machine::{Partner, of_cpus, run};

const MOMENT: Duration = Duration::from_micros(20);

/// A G ends while another one begins to wait for it.
#[test]
fn answer_that_comes_during_the_park_is_not_lost() {
    for seed in 0..200 {
        run(of_cpus(2, seed), move || {
            for round in 0..20 {
                let g = sim::go(|| {
                    sim::sleep(MOMENT);
                    sim::work(MOMENT);
                });
                sim::sleep(MOMENT);
                sim::work(Duration::from_nanos((seed * 20 + round) * 7919 % 20_000));
                g.join().expect("no panic");
            }
        });
    }
}

/// How many Ms take part if each of `cpus` Gs computes for some time.
fn machines_at_work(cpus: usize, seed: u64) -> usize {
    let machines: Arc<Mutex<HashSet<String>>> = Arc::default();
    let seen = machines.clone();
    run(of_cpus(cpus, seed), move || {
        let spawn = |_| {
            let seen = seen.clone();
            sim::go(move || {
                for _ in 0..100 {
                    sim::work(MOMENT);
                    seen.lock().expect("no panic").insert(format!("{:?}", sim::machine()));
                }
            })
        };
        let gs: Vec<_> = (0..cpus).map(spawn).collect();
        gs.into_iter().for_each(|g| g.join().expect("no panic"));
    });
    machines.lock().expect("no panic").len()
}

#[test]
fn most_ps_get_work() {
    for cpus in [2, 4, 8] {
        for seed in 0..20 {
            let machines = machines_at_work(cpus, seed);
            // The Gs are short, so on 8 CPUs some end before the last M is woken.
            assert!(2 * machines > cpus, "{cpus} Gs on {cpus} CPUs, seed {seed}: only {machines} Ms ran them");
        }
    }
}

/// Two Gs ready each other, 500 times, on a machine with six more Ps, which are idle.
pub(crate) fn pair(seed: u64) -> Report {
    run(of_cpus(8, seed), || {
        let partner = Partner::new(500, || ());
        for _ in 0..500 {
            partner.ask();
            partner.wait_for_answer();
        }
    })
}

#[test]
fn pair_of_gs_wakes_few_ms() {
    for seed in 0..20 {
        let report = pair(seed);
        let (wakes, readies) = (report.counts.wakes, report.counts.readies);
        // The scheduler wakes one M when it starts.
        assert!(wakes > 1, "seed {seed}: {readies} Gs were readied while Ps were idle, and no M was woken");
        assert!(wakes < readies / 10, "seed {seed}: {readies} Gs were readied, and {wakes} Ms were woken");
    }
}
