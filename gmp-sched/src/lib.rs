//! Go scheduler.
#![no_std]
