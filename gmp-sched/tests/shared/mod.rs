//! Tests of the library that run on every platform: on threads (`tests/library`) and in the kernel
//! (`qemu-tests/guest/src/library.rs`). Both include this file as a module.
//!
//! The including file provides two things. Its module `platform` contains the library's types for one platform and what
//! else differs between platforms, such as [`MANY`](super::platform::MANY). Its macro `shared_test!` runs the function
//! it names with 1, 2 and 8 Ps, or with the numbers of Ps given by `procs = …`.

use super::platform;

mod channels;
mod classics;
mod go_like_channels;
mod limits;
mod locks;
mod ordered_selects;
mod power_series;
mod selects;
mod selects_without_channels;
mod slices;
mod structure;
mod sync;
mod times;
