//! The saved address is that of the beginning: whoever comes back switches away again.
//! fails: transfer, registers, start, ring

// ANCHOR: switch
            "2:",
            "push rbp",
            "push rbx",
            "lea r8, [rip + 2b]",
            "mov [{save}], rsp",
            "mov [{save} + 8], r8",
            "mov rsp, [rcx]",
            $($load_more,)*
            "jmp [rcx + 8]",
            "pop rbx",
            "pop rbp",
// ANCHOR_END: switch
