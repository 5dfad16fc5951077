//! Tests of the library that run on every platform: on threads (`thread-tests/tests/library`) and in the kernel
//! (`qemu-tests/guest/src/library.rs`). Both include this file as a module.
//!
//! The including file provides three things. Its module `platform` contains the library's types for one platform and
//! what else differs between platforms, such as [`MANY`](super::platform::MANY). Its module `several` is the file of this
//! name. Its macro `shared_test!` runs the named function with 1, 2 and 8 Ps, or with the numbers of Ps given by
//! `procs = …`.

use super::{platform, several};

mod channels;
mod classics;
mod contexts;
mod go_like_channels;
mod limits;
mod locks;
mod ordered_selects;
mod selects;
mod selects_without_channels;
#[path = "../../benches/shared/skynet.rs"]
mod skynet;
mod slices;
mod structure;
mod sync;
mod times;
