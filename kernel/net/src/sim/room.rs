//! Buffers of connections for platforms without pages: all of their memory is there from the beginning. Where the
//! operating system gives memory to pages when they are first used, this costs no more than what is used.

use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use gmp_sched::platform::OutOfResources;

use crate::buffers::{PAGE_BYTES, ROOM_PAGES, Room};
use crate::memory::{Reserved, room};

#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES]);

/// Memory from the heap, which is never freed.
struct HeapRoom(NonNull<u8>);

// SAFETY: the memory is accessed by the owner of the room only.
unsafe impl Send for HeapRoom {}

// SAFETY: the address does not change. The memory is as large as all pages and aligned to a page. It was allocated by
// `make_room`, which has forgotten the allocation, so it is never freed, and it belongs to no other room.
unsafe impl Room for HeapRoom {
    fn start(&self) -> NonNull<u8> {
        self.0
    }

    fn commit(&mut self, _: u32) -> Result<(), OutOfResources> {
        Ok(())
    }

    fn withdraw(&mut self, _: u32) {}

    fn reclaim(&mut self) -> bool {
        true
    }
}

/// Makes a room.
///
/// # Errors
/// There is no memory.
pub(crate) fn make_room() -> Result<&'static mut dyn Room, OutOfResources> {
    let place = Reserved::new()?;
    let mut pages = ManuallyDrop::new(room::<Page>(ROOM_PAGES as usize)?);
    let start = NonNull::new(pages.as_mut_ptr()).ok_or(OutOfResources)?;
    Ok(place.fill(HeapRoom(start.cast())))
}
