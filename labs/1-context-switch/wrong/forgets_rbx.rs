//! RBX is preserved by functions, so the compiler does not save it.
//! fails: transfer, registers, start, ring

// ANCHOR: switch
            "push rbp",
            "lea r8, [rip + 2f]",
            "mov [{save}], rsp",
            "mov [{save} + 8], r8",
            "mov rsp, [rcx]",
            $($load_more,)*
            "jmp [rcx + 8]",
            "2:",
            "pop rbp",
// ANCHOR_END: switch
