//! RCX is kept on the stack while arrive runs, so that stack is not aligned.
//! fails: start

// ANCHOR: start
        "xor ebp, ebp",
        "push rcx",
        "call {arrive}",
        "pop rdi",
        "push 0",
        "jmp {run}",
// ANCHOR_END: start
