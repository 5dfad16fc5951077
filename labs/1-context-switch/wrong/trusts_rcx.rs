//! arrive may change RCX, which is not preserved.
//! fails: start

// ANCHOR: start
        "xor ebp, ebp",
        // `arrive` preserves RBX.
        "push rcx",
        "sub rsp, 8",
        "call {arrive}",
        "add rsp, 16",
        "mov rdi, rcx",
        "lea rax, [rip + 2f]",
        "push rax",
        "jmp {run}",
        "2:",
        "ud2",
// ANCHOR_END: start
