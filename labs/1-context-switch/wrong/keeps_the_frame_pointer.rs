//! RBP still points into the stack that was left, so a backtrace goes on there.
//! fails: start

// ANCHOR: start
        // `arrive` preserves RBX.
        "mov rbx, rcx",
        "call {arrive}",
        "mov rdi, rbx",
        "lea rax, [rip + 2f]",
        "push rax",
        "jmp {run}",
        "2:",
        "ud2",
// ANCHOR_END: start
