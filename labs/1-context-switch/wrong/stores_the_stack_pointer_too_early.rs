//! The stack pointer is stored before the pushes, so the pops take other words.
//! fails: transfer, registers, start, ring

// ANCHOR: switch
            "mov [{save}], rsp",
            "push rbp",
            "push rbx",
            "lea r8, [rip + 2f]",
            "mov [{save} + 8], r8",
            "mov rsp, [rcx]",
            $($load_more,)*
            "jmp [rcx + 8]",
            "2:",
            "pop rbx",
            "pop rbp",
// ANCHOR_END: switch
