//! The stack pointer is stored after it has become that of the other context.
//! fails: transfer, registers, start, ring

// ANCHOR: switch
            "push rbp",
            "push rbx",
            "lea r8, [rip + 2f]",
            "mov rsp, [rcx]",
            "mov [{save}], rsp",
            "mov [{save} + 8], r8",
            $($load_more,)*
            "jmp [rcx + 8]",
            "2:",
            "pop rbx",
            "pop rbp",
// ANCHOR_END: switch
