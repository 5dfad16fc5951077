//! Tests of the heap, and of the frame allocator from which the heap gets its memory.

use core::alloc::Layout;

use kernel::internals::count_frames_with_contents;
use kernel::prelude::*;

use crate::several::go_each;

guest_test!(allocations_of_many_gs_keep_their_contents, smp = &[1, 2, 8]);
/// Many Gs allocate blocks of many sizes at the same time. Each G frees some of its blocks, and main frees the others.
fn allocations_of_many_gs_keep_their_contents() {
    let fill = |g: u8| {
        let mut blocks = Vec::new();
        for round in 0..300usize {
            blocks.push(vec![g; 1 + round * 37 % 5000]);
            if round % 3 == 0 {
                drop(blocks.swap_remove(round % blocks.len()));
            }
            if round % 16 == 0 {
                yield_now();
            }
        }
        blocks
    };
    let filling = go_each(0..16u8, fill);
    for (g, handle) in filling.into_iter().enumerate() {
        let blocks = handle.join().expect("it does not panic");
        assert!(blocks.iter().flatten().all(|&byte| usize::from(byte) == g));
    }
}

guest_test!(frames_with_code_of_the_firmware_are_overwritten, smp = &[1, 8], isolated);
/// A frame that has not been allocated since power-on contains no code of the firmware when it is allocated.
fn frames_with_code_of_the_firmware_are_overwritten() {
    const FRAMES: usize = 50_000;
    let with_contents = count_frames_with_contents(FRAMES).expect("most of the memory is free");
    // Some frames were allocated and freed since power-on, and may contain anything.
    assert!(with_contents < 200, "{with_contents} of {FRAMES} frames contain something");
}

guest_test!(running_out_of_memory_is_an_error);
fn running_out_of_memory_is_an_error() {
    let mut huge = Vec::<u8>::new();
    assert!(huge.try_reserve(1 << 40).is_err());
    assert!(huge.try_reserve(1 << 20).is_ok());
}

guest_test!(impossible_alignment_takes_no_memory);
fn impossible_alignment_takes_no_memory() {
    for (size, align) in [(16, 1 << 40), (1 << 21, 1 << 46), (4096, 1 << 62), (1 << 62, 1 << 47), (1 << 20, 1 << 32)] {
        let layout = Layout::from_size_align(size, align).expect("a layout");
        let before = kernel::mm::usage().free;
        // `black_box` is needed because the compiler may assume that an unused allocation succeeds.
        #[expect(unsafe_code, reason = "asks the allocator itself")]
        // SAFETY: the size of the layout is not zero.
        let memory = core::hint::black_box(unsafe { alloc::alloc::alloc(layout) });
        assert!(memory.is_null(), "{layout:?}");
        let taken = before.saturating_sub(kernel::mm::usage().free);
        assert!(taken < 1 << 20, "{taken} bytes were taken for {layout:?}");
    }
}

guest_test!(memory_above_4_gib_is_usable, memory = 6144, smp = &[2], seconds = 60);
fn memory_above_4_gib_is_usable() {
    // This allocates 5 GiB at once, but only 2 GiB of memory have addresses below 4 GiB. So memory above 4 GiB is used,
    // too. Only one word of each block is written, so the host need not provide all of this memory.
    let mut blocks: Vec<Vec<u64>> = (0..320).map(|_| Vec::with_capacity(1 << 21)).collect();
    blocks.iter_mut().zip(0..).for_each(|(block, number)| block.push(number));
    assert!(blocks.iter().zip(0..).all(|(block, number)| block[..] == [number]), "a block changed");
}

guest_test!(little_memory_is_enough, memory = 64);
fn little_memory_is_enough() {
    let numbers: Vec<u64> = (0..100_000).collect();
    assert_eq!(numbers.iter().sum::<u64>(), 4_999_950_000);
}
