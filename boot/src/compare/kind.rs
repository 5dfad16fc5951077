//! What a row of a comparison mostly measures. Rows of different kinds have ratios of different sizes, so the median of
//! all rows depends on how many rows of each kind there are.

/// What a row mostly measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// What the scheduler does again and again: switches, spawns, messages, locks, sleeps.
    Operation,
    /// The first run of such a workload. It includes what only a first run needs, mostly the page faults of new stacks.
    FirstRun,
    /// Connections, and data over them, on the loopback or between a client and a server.
    Network,
    /// Work of the program itself, which shows what the compilers and, with several Ps, the placement of threads cost.
    Computation,
    /// The cost of creating a thread for a G, and the memory that a G takes.
    Resource,
}

impl Kind {
    /// All kinds, in the order in which they are shown.
    pub const ALL: [Self; 5] = [Self::Operation, Self::FirstRun, Self::Network, Self::Computation, Self::Resource];

    /// Returns the kind of the row `name`. The names that begin with `net_` are those of workloads in
    /// `programs/src/bin/bench/net.rs` and in [`net`](super::net), and the other names here are those of workloads in
    /// `gmp-sched/benches/shared`.
    pub fn of(name: &str) -> Self {
        match name {
            _ if name.ends_with("_cold") => Self::FirstRun,
            _ if name.starts_with("net_") => Self::Network,
            "fib27_sequential" | "split_primes_64g" => Self::Computation,
            "thread_spawn" | "bytes_per_parked_g" => Self::Resource,
            _ => Self::Operation,
        }
    }

    /// Returns the name of the rows of this kind, in the plural.
    pub fn title(self) -> &'static str {
        match self {
            Self::Operation => "operations",
            Self::FirstRun => "first runs",
            Self::Network => "network",
            Self::Computation => "computations",
            Self::Resource => "threads and memory",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Kind;

    #[test]
    fn kinds_follow_from_the_names_of_the_workloads() {
        for (name, kind) in [
            ("yield", Kind::Operation),
            ("fib27_cut12", Kind::Operation),
            ("sleep_overshoot_p99", Kind::Operation),
            ("skynet_100k_cold", Kind::FirstRun),
            ("net_echo_1", Kind::Network),
            ("fib27_sequential", Kind::Computation),
            ("split_primes_64g", Kind::Computation),
            ("thread_spawn", Kind::Resource),
            ("bytes_per_parked_g", Kind::Resource),
        ] {
            assert_eq!(Kind::of(name), kind, "{name}");
        }
    }

    /// A workload that is renamed must not become an operation unnoticed.
    #[test]
    fn workloads_have_the_names_that_decide_their_kinds() {
        let source = concat!(
            include_str!("../../../gmp-sched/benches/shared/mod.rs"),
            include_str!("../../../gmp-sched/benches/shared/parallel.rs"),
        );
        for name in ["fib27_sequential", "split_primes_64g", "thread_spawn", "bytes_per_parked_g"] {
            assert!(source.contains(&format!("\"{name}\"")), "{name}");
        }
    }
}
