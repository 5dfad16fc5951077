//! The jump goes to the stack pointer, not to the address.
//! fails: transfer, registers, start, ring

// ANCHOR: switch
            "push rbp",
            "push rbx",
            "lea r8, [rip + 2f]",
            "mov [{save}], rsp",
            "mov [{save} + 8], r8",
            "mov rsp, [rcx]",
            $($load_more,)*
            "jmp [rcx]",
            "2:",
            "pop rbx",
            "pop rbp",
// ANCHOR_END: switch
