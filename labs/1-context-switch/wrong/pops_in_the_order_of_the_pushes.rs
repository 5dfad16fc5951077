//! A stack gives back in the opposite order.
//! fails: transfer, registers, start, ring

// ANCHOR: switch
            "push rbp",
            "push rbx",
            "lea r8, [rip + 2f]",
            "mov [{save}], rsp",
            "mov [{save} + 8], r8",
            "mov rsp, [rcx]",
            $($load_more,)*
            "jmp [rcx + 8]",
            "2:",
            "pop rbp",
            "pop rbx",
// ANCHOR_END: switch
