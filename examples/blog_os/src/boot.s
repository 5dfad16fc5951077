// The PVH entry: QEMU's `-kernel` jumps to `start` in 32-bit protected mode without paging. This code maps the first
// GiB so that virtual and physical addresses are equal, turns on SSE and long mode, and calls `kernel_main`.

.section .note.pvh, "a", @note
    .balign 4
    .long 4                         // length of the name
    .long 4                         // length of the value
    .long 18                        // XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .long start

.section .boot.text, "ax", @progbits
.code32
.global start
start:
    cli
    cld
    movl %cr4, %eax
    orl $0x620, %eax                // PAE, OSFXSR, OSXMMEXCPT
    movl %eax, %cr4
    movl $pml4, %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx          // EFER
    rdmsr
    orl $0x100, %eax                // LME
    wrmsr
    movl %cr0, %eax
    andl $0xfffffff3, %eax          // EM, TS off
    orl $0x80010023, %eax           // PG, WP, NE, MP, PE
    movl %eax, %cr0
    lgdt gdt_pointer
    ljmp $8, $1f
.code64
1:
    movl $0x10, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    movq ${stacks} + {stack_bytes}, %rsp   // the top of the last slot
    xorl %ebp, %ebp
    call kernel_main
    ud2

.section .data, "aw", @progbits
    .balign 8
gdt:
    .quad 0
    .quad 0x00af9b000000ffff        // 64-bit code
    .quad 0x00cf93000000ffff        // data
gdt_pointer:
    .word . - gdt - 1
    .long gdt

    .balign 4096
pml4:
    .quad pdpt + 3
    .fill 511, 8, 0
pdpt:
    .quad page_directory + 3
    .fill 511, 8, 0
.global page_directory
page_directory:
    .set address, 0
    .rept 512
    .quad address + 0x83            // present, writable, page of 2 MiB
    .set address, address + 0x200000
    .endr
.text
