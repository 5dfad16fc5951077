//! The data structures of the kernel's heap. The kernel adds the locks, the frames and the per-CPU data, so the tests
//! of this crate run on the host.
//!
//! ```text
//!   magazine   objects of one class that one CPU has freed and will allocate next
//!      ↕ chains of objects
//!   spans      for each class: chains that CPUs share, and spans (page runs that are divided into objects)
//!      ↕ page runs
//!   runs       address ranges of whole pages; also for each object that is larger than the largest class
//! ```
//!
//! An object moves from a CPU to another one, or back to its span, as part of a *chain*, a linked list of free objects
//! of one class. A chain of any length moves between CPUs in constant time, so the locks that CPUs share are held only
//! briefly. Objects return to their spans only when the kernel wants frames back. Bonwick calls this design magazines
//! and a depot (Magazines and Vmem, USENIX 2001).
#![no_std]
#![deny(unsafe_code)]

pub mod classes;
#[expect(unsafe_code, reason = "lists in the memory itself")]
pub mod idle;
#[expect(unsafe_code, reason = "lists in the memory itself")]
pub mod magazine;
#[expect(unsafe_code, reason = "tables whose memory the kernel provides")]
pub mod runs;
#[expect(unsafe_code, reason = "lists in the memory itself, and tables whose memory the kernel provides")]
pub mod spans;

/// The size of a page, in bytes.
pub const PAGE_SIZE: usize = 4096;
