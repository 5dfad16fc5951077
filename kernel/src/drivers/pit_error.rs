//! The error of the PIT, on the machine and on the host. The module `host/pit` includes this file by its path.

use core::fmt;

/// There is no programmable interval timer, or it does not count at its rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotCounting;

impl fmt::Display for NotCounting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no PIT that counts at its rate")
    }
}

impl core::error::Error for NotCounting {}
