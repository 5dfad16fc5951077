// The PVH entry stub: switches from 32-bit protected mode without paging to long mode, at -2 GiB. See pvh.rs.

.section .note.pvh, "a", @note
    .balign 4
    .long 4                         // length of the name
    .long 8                         // length of the value: QEMU reads 8 bytes from a 64-bit ELF
    .long 18                        // XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .quad pvh_start

.section .boot.text, "awx", @progbits
.code32
.global pvh_start
pvh_start:
    cli
    cld
    // In CR4, set PAE, OSFXSR and OSXMMEXCPT. The prebuilt `core` may use SSE in any function.
    movl %cr4, %eax
    orl $0x620, %eax
    movl %eax, %cr4
    movl $boot_pml4, %eax
    movl %eax, %cr3
    // In EFER, set LME and NXE.
    movl $0xc0000080, %ecx
    rdmsr
    orl $0x900, %eax
    wrmsr
    // In CR0, set PG, WP, NE, MP and PE, and clear EM and TS.
    movl %cr0, %eax
    andl $0xfffffff3, %eax
    orl $0x80010023, %eax
    movl %eax, %cr0
    lgdt boot_gdt_pointer
    ljmp $8, $1f
.code64
1:
    movl $0x10, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    xorl %eax, %eax
    movl %eax, %fs
    movl %eax, %gs
    movq $early_stack_top, %rsp
    xorl %ebp, %ebp                 // backtraces end at a frame pointer of zero
    movl %ebx, %edi                 // the first argument: the start info
    movq ${main}, %rax
    call *%rax
    ud2

.section .boot.data, "aw", @progbits
    .balign 8
boot_gdt:
    .quad 0
    .quad 0x00af9b000000ffff        // 64-bit code
    .quad 0x00cf93000000ffff        // data
boot_gdt_pointer:
    .word . - boot_gdt - 1
    .long boot_gdt

    .balign 4096
boot_pml4:
    .quad boot_pdpt + 3             // entry 0: physical memory at address 0, for this stub
    .fill 255, 8, 0
    .quad boot_pdpt + 3             // entry 256: physical memory at PHYSICAL_OFFSET
    .fill 254, 8, 0
    .quad boot_pdpt_image + 3       // entry 511: the image at -2 GiB
boot_pdpt:
    .quad boot_pd + 0x0003
    .quad boot_pd + 0x1003
    .quad boot_pd + 0x2003
    .quad boot_pd + 0x3003
    .fill 508, 8, 0
boot_pdpt_image:
    .fill 510, 8, 0
    .quad boot_pd + 0x0003          // maps -2 GiB
    .quad boot_pd + 0x1003          // maps -1 GiB
boot_pd:
    .set address, 0
    .rept 4 * 512
    .quad address + 0x83            // flags: present, writable, page of 2 MiB
    .set address, address + 0x200000
    .endr

.section .bss.early_stack, "aw", @nobits
    .balign 4096
    .skip {stack_bytes}
early_stack_top:
.text
