//! Tests of the library that run on every platform: on threads (`tests/library.rs`) and inside the machine
//! (`qemu-tests/guest/src/library.rs`). Both include this file as a module.
//!
//! What includes it has a module `platform` next to it, with the aliases of one platform and what else differs
//! ([`MANY`](super::platform::MANY)), and a macro `shared_test!`, which makes the function it names a test for machines
//! with 1, 2 and 8 Ps, or those it is given by `procs = …`.

use super::platform;

mod channels;
mod classics;
mod limits;
mod locks;
mod power_series;
mod selects;
mod slices;
mod structure;
mod sync;
mod times;
