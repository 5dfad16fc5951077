//! run is entered by a jump, on a stack that is aligned as before a call.
//! fails: registers, start

// ANCHOR: start
        "xor ebp, ebp",
        // `arrive` preserves RBX.
        "mov rbx, rcx",
        "call {arrive}",
        "mov rdi, rbx",
        "jmp {run}",
// ANCHOR_END: start
