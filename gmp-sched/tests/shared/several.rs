//! Several Gs at the same time, for tests of each platform. The including file has the platform's names in `platform`.

// With `std` the name `Vec` is there already, and importing it would be redundant.
use alloc::vec::Vec as List;

use super::platform::{JoinHandle, go};

/// For each value, spawns a G that calls `body` with the value.
pub(crate) fn go_each<V: Send + 'static, T: Send + 'static>(
    values: impl IntoIterator<Item = V>,
    body: impl FnOnce(V) -> T + Clone + Send + 'static,
) -> List<JoinHandle<T>> {
    values
        .into_iter()
        .map(|value| {
            let body = body.clone();
            go(move || body(value))
        })
        .collect()
}

/// For each value, spawns a G that runs what `make` returns for the value.
pub(crate) fn spawn_each<V, F, T>(values: impl IntoIterator<Item = V>, make: impl FnMut(V) -> F) -> List<JoinHandle<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    values.into_iter().map(make).map(|body| go(body)).collect()
}

/// Joins all Gs, and returns their results in the same order.
#[track_caller]
pub(crate) fn join_all<T: Send + 'static>(gs: impl IntoIterator<Item = JoinHandle<T>>) -> List<T> {
    gs.into_iter().map(|g| g.join().expect("no G panics")).collect()
}
