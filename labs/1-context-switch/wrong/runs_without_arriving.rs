//! The far side's function is not called: nobody gets what the context that left has handed over.
//! fails: transfer, start, ring

// ANCHOR: start
        "xor ebp, ebp",
        "mov rdi, rcx",
        "lea rax, [rip + 2f]",
        "push rax",
        "jmp {run}",
        "2:",
        "ud2 /* {arrive} */",
// ANCHOR_END: start
