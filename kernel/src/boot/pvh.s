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
    // Turning on a feature that the CPU does not have would raise an exception, for which there is no handler yet.
    movl %ebx, %esi                 // the start info, because cpuid changes EBX
    movl $0x80000000, %eax
    cpuid
    cmpl $0x80000001, %eax
    jb no_such_feature
    movl $0x80000001, %eax
    cpuid
    notl %edx
    testl $0x20100000, %edx         // long mode (bit 29) and NX (bit 20)
    jnz no_such_feature
    movl %esi, %ebx
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

.code32
// Writes the message to the serial port, ends QEMU, and halts. Needs no stack.
no_such_feature:
    movl $message, %esi
2:  lodsb
    testb %al, %al
    jz 4f
    movb %al, %bl
    movl $100000, %ecx              // waits until the port accepts a byte, but not for ever if there is no port
    movw $0x3fd, %dx
3:  inb %dx, %al
    testb $0x20, %al
    loopz 3b
    movw $0x3f8, %dx
    movb %bl, %al
    outb %al, %dx
    jmp 2b
4:  movw ${exit_port}, %dx
    movl ${exit_value}, %eax
    outl %eax, %dx
5:  hlt
    jmp 5b

.section .boot.data, "aw", @progbits
    .balign 8
boot_gdt:
    .quad 0
    .quad 0x00af9b000000ffff        // 64-bit code
    .quad 0x00cf93000000ffff        // data
boot_gdt_pointer:
    .word . - boot_gdt - 1
    .long boot_gdt

message:
    .byte {error_stream}
    .asciz "kernel: this CPU cannot run the kernel, because it has no long mode (64 bits) or no NX (pages without execution)\n"

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
