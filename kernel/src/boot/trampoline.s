// The code at which every CPU except the boot CPU starts. It switches from real mode to long mode and calls the kernel.
// The boot CPU copies this code to a page below 1 MiB. See ap_start.rs.

.section .rodata.trampoline, "a", @progbits
.global trampoline_start, trampoline_end, trampoline_data
    .balign 16
trampoline_start:
.code16
    cli
    cld
    movw %cs, %ax                   // data are addressed by their offset in this page
    movw %ax, %ds
    // In CR4, set PAE, OSFXSR and OSXMMEXCPT.
    movl %cr4, %eax
    orl $0x620, %eax
    movl %eax, %cr4
    movl trampoline_tables - trampoline_start, %eax
    movl %eax, %cr3
    // In EFER, set LME and NXE.
    movl $0xc0000080, %ecx
    rdmsr
    orl $0x900, %eax
    wrmsr
    // In CR0, set PG, WP, NE, MP and PE, which switches from real mode to long mode in one step. Clear EM, TS, and the
    // bits that turn the caches off (CD, NW).
    movl %cr0, %eax
    andl $0x9ffffff3, %eax
    orl $0x80010023, %eax
    movl %eax, %cr0
    lgdtl trampoline_gdt_pointer - trampoline_start
    ljmpl *(trampoline_long_mode - trampoline_start)
.code64
trampoline_64:
    movl $0x10, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    // Increment the ticket to get the index of a stack. If there are not enough stacks, this CPU halts.
    movl $1, %eax
    lock xaddl %eax, trampoline_ticket(%rip)
    cmpl trampoline_stack_count(%rip), %eax
    jae 2f
    movq trampoline_stacks(%rip), %rcx
    movq (%rcx,%rax,8), %rsp
    xorl %ebp, %ebp                 // backtraces end at a frame pointer of zero
    movq trampoline_main(%rip), %rcx
    call *%rcx
2:  hlt
    jmp 2b

    .balign 8
trampoline_gdt:
    .quad 0
    .quad 0x00af9b000000ffff        // 64-bit code
    .quad 0x00cf93000000ffff        // data
    .word 0
trampoline_gdt_pointer:
    .word trampoline_gdt_pointer - trampoline_gdt - 3
    .long trampoline_gdt - trampoline_start         // in the copy, Rust adds the page's address
trampoline_long_mode:
    .long trampoline_64 - trampoline_start          // in the copy, Rust adds the page's address
    .word 8

    // In the copy, Rust fills these fields in: see `Data` in ap_start.rs.
    .balign 8
trampoline_data:
trampoline_stacks:      .quad 0
trampoline_main:        .quad 0
trampoline_tables:      .long 0
trampoline_stack_count: .long 0
trampoline_ticket:      .long 0
trampoline_end:
.text
