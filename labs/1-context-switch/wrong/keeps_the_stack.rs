//! The stack stays that of the context that leaves: both push onto the same one.
//! fails: transfer, registers, start, ring

// ANCHOR: switch
            "push rbp",
            "push rbx",
            "lea r8, [rip + 2f]",
            "mov [{save}], rsp",
            "mov [{save} + 8], r8",
            $($load_more,)*
            "jmp [rcx + 8]",
            "2:",
            "pop rbx",
            "pop rbp",
// ANCHOR_END: switch
