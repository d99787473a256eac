// The code that runs inside the watched program on arm64: what happens between
// a site and the function behind it, and after the function. It is to amd64.S
// what arm64.go is to amd64.go: the island of memory in which it lies, the table
// of threads and the rings are the same, and drawn there.
//
// The site, a nop, becomes a branch to a stub, which is one of these
// (patch/arm64.go writes them):
//
//    0  stp  x16, x30, [sp, #-64]!       0  stp  x16, x30, [sp, #-64]!
//    4  bl   entry                       4  bl   entry_only, count or chain
//    8  cbz  x16, 36                     8  ldp  x16, x30, [sp], #64
//   12  ldr  x16, [sp], #64             12  b    function
//   16  bl   function
//   20  stp  x16, x30, [sp, #-64]!
//   24  bl   exit
//   28  ldp  x16, x30, [sp], #64
//   32  ret
//   36  ldp  x16, x30, [sp], #64
//   40  b    function
//   44  id                              44  id
//
// The left one sees the exit: it calls the function, so that x30, where that
// returns to, is 20 of the stub. Each bl has its ret, as the processor's
// prediction, and a guarded control stack, want it. The caller's x30 is kept at
// A + shadow; A is sp where the function begins. Calls below it have another A,
// because a function that calls keeps its x30 on the stack.
//
// All registers are preserved, also those that calls may change: with -fipa-ra
// compilers rely on what a function really does. Flags are not: they are dead at
// entries and exits.
//
// In a routine:
//
//   sp + 0         x16, x30 of the caller (in an exit: to be filled)
//   sp + 16 ... 56 x17, x0, x1, x2, x3, x4
//   sp + 64        A
//   x30            return into the stub
//   x1             the thread, once it is found

        .set    threads, 1024
        .set    THREAD_MUTED, 4         // u32; the id of a muted thread, whose place has -1
        .set    THREAD_HEAD, 8          // events that were begun
        .set    THREAD_LIMIT, 16        // head may go there without a look at tail
        .set    THREAD_RING, 24         // address of the events
        .set    THREAD_LOST, 32
        .set    THREAD_MASK, 40         // u32; events in the ring, less one
        .set    THREAD_TURN, 44         // u32; for sampling
        .set    THREAD_FRAMES, 48       // address of the open calls, for filters
        .set    THREAD_DEPTH, 56        // their number
        .set    THREAD_TAIL, 64         // events that were read
        .set    THREAD_PID, 72          // u32; its process
        .set    THREAD_LOW, 80          // its stack, as far as it is known
        .set    THREAD_TOP, 88
        .set    THREAD_ASKS, 96         // an address in its stack, if that is to be known
        .set    THREAD_POINTERS, 104    // steps by frame pointers
        .set    THREAD_TRACED, 112      // steps by traced callers
        .set    HEADER, 0x3000          // before this code
        .set    PROCESS, 0x2000
        .set    NO_POINTER, -128        // calls by threads that have no thread pointer
        .set    THREAD_AT, 80           // with filters: A of the last call
        .set    THREAD_WHOLE, 88        // not 0: it records everything
        .set    UNANSWERED, -116        // u32; here and below: before the table, as in amd64.S
        .set    STATE, -112
        .set    PATIENCE, -104
        .set    NOTICES, -96            // u32
        .set    ANSWERED, -92           // u32
        .set    BEAT, -88               // u32
        .set    ANSWERING, -84          // u32
        .set    PID, -80                // u32
        .set    CACHE, -72              // of the rows
        .set    MAX_DEPTH, -64
        .set    MIN_TIME, -56
        .set    PERIOD, -48
        .set    ROOTS, -40              // not 0: record below roots only
        .set    NO_THREAD, -32          // calls for which the table was full
        .set    CHAIN_DEPTH, -24        // u32
        .set    CHAIN_SHIFT, -20        // u32; log2 of a chain's size
        .set    ROWS, -16               // address of the unwind rows
        .set    ROW_COUNT, -8
        .set    EXIT, 0x80000000        // in an event's id
        .set    ROOT, 30                // bit of a stub's id
        .set    ARGUMENTS, 29           // bit of it: there is a description of them
        .set    WORD, 0x10000000        // in an event's id: it is a word of the one before
        .set    NO_EXIT, 0x04000000     // in an event's id, as in amd64.S
        .set    WHOLE, 0x08000000
        .set    WORDS_SHIFT, 20         // in an event's id: how many words follow, 6 bits
        .set    WRITTEN, 0              // bits of frames
        .set    MUTED, 1
        .set    FRAME, 64
        .set    RETURN, 8               // the caller's x30
        .set    ENTRY_ID, 44 - 8        // from x30 on
        .set    EXIT_ID, 44 - 28

        .arch   armv8-a+sve             // used where the processor has it
        .text
start:
shadow: .quad   0
tid_at: .quad   0                       // where tpidr_el0 has the thread's id
nranges:.quad   0
ranges: .fill   16, 8, 0                // of all stubs: address, size
stacks: .quad   0, 0                    // that have a shadow: lowest address, size
sve:    .quad   0                       // not 0: the processor has it
        .org    0x100
        .long   entry - start, exit - start
        .long   entry_only - start, count - start, chain - start
        .long   entry_filtered - start, exit_filtered - start
        .long   entry_arguments - start
        .long   entry_caller - start, exit_caller - start
        .long   notice - start, notice_end - start
        .org    0x140

// increment adds 1 to the word at \at. It is not for other threads: a signal
// handler of this one makes the store fail. Changes x3, x16.
        .macro  increment at
.Lincrement\@:
        ldxr    x3, [\at]
        add     x3, x3, #1
        stxr    w16, x3, [\at]
        cbnz    w16, .Lincrement\@
        .endm

// find_thread sets x1 to the thread, or goes to \skip, which must be a name, as the
// macro has numbers itself, if nothing is to be recorded. Changes x0, x2, x3, x4, x16, x17.
        .macro  find_thread skip
        adr     x16, start
        sub     x17, x16, #HEADER
        ldr     x17, [x17]
        cbz     x17, \skip
        mrs     x0, tpidr_el0
        cbz     x0, 3f
        ldr     x1, [x16, #tid_at - start]
        ldr     w0, [x0, x1]
        mov     w1, #0x79b1
        movk    w1, #0x9e37, lsl #16
        mul     w1, w0, w1
        lsr     w1, w1, #22
        add     x1, x17, x1, lsl #7
        ldr     w2, [x1]
        cbz     w2, 1f
        cmp     w2, w0
        b.ne    1f
2:
        .subsection 1
1:      mov     x4, x30
        bl      probe
        mov     x30, x4
        cbz     x1, \skip
        b       2b
3:      sub     x1, x17, #-NO_POINTER
        increment x1
        b       \skip
        .previous
        .endm

// record writes an event of 16 bytes: time u64, id u32, low half of A u32. The
// time comes last, and stlr lets nobody see it before the rest: as long as it is
// 0 the event is not there. Changes x0, x2, x3, x16, x17.
        .macro  record id, flag=0
        ldr     w16, [x30, #\id]
        .if     \flag
        orr     w16, w16, #\flag
        .endif
        add     x2, x1, #THREAD_HEAD
        ldr     x0, [x2]
        ldr     x3, [x1, #THREAD_LIMIT]
        cmp     x0, x3
        b.hs    3f
4:      ldxr    x0, [x2]
        add     x3, x0, #1
        stxr    w17, x3, [x2]
        cbnz    w17, 4b
        ldr     w3, [x1, #THREAD_MASK]
        ldr     x17, [x1, #THREAD_RING]
        and     x0, x0, x3
        add     x3, x17, x0, lsl #4
        add     x0, sp, #FRAME
        stp     w16, w0, [x3, #8]
        mrs     x0, cntvct_el0
        stlr    x0, [x3]
5:
        .subsection 1
3:      ldr     w3, [x1, #THREAD_MASK]
        add     x17, x1, #THREAD_TAIL
        ldar    x17, [x17]              // what was read is free from here on
        add     x3, x3, x17
        sub     x3, x3, #63
        str     x3, [x1, #THREAD_LIMIT]
        cmp     x0, x3
        b.lo    4b
        add     x2, x1, #THREAD_LOST
        increment x2
        b       5b
        .previous
        .endm

        .macro  save
        stp     x17, x0, [sp, #16]
        stp     x1, x2, [sp, #32]
        stp     x3, x4, [sp, #48]
        .endm

        .macro  done
        ldp     x17, x0, [sp, #16]
        ldp     x1, x2, [sp, #32]
        ldp     x3, x4, [sp, #48]
        ret
        .endm

// seen goes to \not if the exit of a call is not seen by itself: on other stacks, and of
// tail calls, whose exit is that of their caller. Changes x0, x2, x3, x4, x16, x17.
        .macro  seen not
        adr     x16, start
        add     x2, sp, #FRAME
        ldp     x3, x4, [x16, #stacks - start]
        sub     x3, x2, x3
        cmp     x3, x4
        b.hs    \not
        ldr     x0, [sp, #RETURN]
        ldr     w3, [x16, #nranges - start]
        add     x4, x16, #ranges - start
8:      ldp     x17, x2, [x4], #16
        sub     x17, x0, x17            // in a stub: a tail call
        cmp     x17, x2
        b.lo    \not
        subs    w3, w3, #1
        b.ne    8b
        .endm

entry:
        save
        find_thread unrecorded_entry
        seen    entry_without_exit
        record  ENTRY_ID
hijack:
        add     x2, sp, #FRAME
        ldr     x0, [sp, #RETURN]
        ldr     x1, shadow
        str     x0, [x2, x1]
        mov     x16, #1                 // the stub calls the function
        done
plain:
        mov     x16, #0                 // it goes there
        done
unrecorded_entry:
        seen    plain
        b       hijack
entry_without_exit:
        record  ENTRY_ID, NO_EXIT
        b       plain

        .p2align 4
exit:
        save
        find_thread restore
exit_found:
        record  EXIT_ID, EXIT
restore:
        ldr     x16, shadow
        add     x17, sp, #FRAME
        ldr     x17, [x17, x16]
        str     x17, [sp, #RETURN]
        done

        .p2align 4
entry_only:
        save
        find_thread nothing
        record  ENTRY_ID
nothing:
        done

        .p2align 4
count:
        save
        find_thread nothing
        ldr     w2, [x30, #ENTRY_ID]
        ldr     x3, [x1, #THREAD_RING]
        add     x2, x3, x2, lsl #3
        increment x2
        done

// write writes the event of time x0, id w4 and A x5; where the id says so with the
// arguments of the frame x7. Changes x2, x3, x11, x16, x17.
write:
        tbz     w4, #ARGUMENTS, 3f
        tbz     w4, #31, write_frame    // no exit
3:      add     x2, x1, #THREAD_HEAD
        ldr     x3, [x2]
        ldr     x16, [x1, #THREAD_LIMIT]
        cmp     x3, x16
        b.hs    2f
1:      ldxr    x3, [x2]
        add     x16, x3, #1
        stxr    w17, x16, [x2]
        cbnz    w17, 1b
        ldr     w16, [x1, #THREAD_MASK]
        ldr     x17, [x1, #THREAD_RING]
        and     x3, x3, x16
        add     x3, x17, x3, lsl #4
        stp     w4, w5, [x3, #8]
        stlr    x0, [x3]
        ret
2:      ldr     w16, [x1, #THREAD_MASK]
        add     x17, x1, #THREAD_TAIL
        ldar    x17, [x17]
        add     x16, x16, x17
        sub     x16, x16, #63
        str     x16, [x1, #THREAD_LIMIT]
        cmp     x3, x16
        b.lo    1b
        add     x2, x1, #THREAD_LOST
        increment x2
        ret

// buffer_of_frame sets x11 to the buffer of the frame x7. Changes x16.
        .macro  buffer_of_frame
        ldr     x11, [x1, #THREAD_FRAMES]
        sub     x16, x7, x11
        add     x11, x11, x16, lsl #4   // of 32 bytes 512
        add     x11, x11, #0x8000
        .endm

write_frame:
        str     x30, [sp, #-16]!
        buffer_of_frame
        bl      write_arguments
        ldr     x30, [sp], #16
        ret

        .set    MORE, 64
        .macro  save_more
        sub     sp, sp, #MORE
        stp     x5, x6, [sp]
        stp     x7, x8, [sp, #16]
        stp     x9, x10, [sp, #32]
        stp     x30, x11, [sp, #48]
        .endm

        .macro  restore_more
        ldp     x5, x6, [sp]
        ldp     x7, x8, [sp, #16]
        ldp     x9, x10, [sp, #32]
        ldp     x30, x11, [sp, #48]
        add     sp, sp, #MORE
        .endm

// Arguments are recorded as amd64.S has it: in words of 64 bits, each in the place
// of an event after the one of the call, which has their number.
//
// entry_arguments is entry_only with arguments.
        .p2align 4
entry_arguments:
        save
        find_thread nothing
        save_more
        mov     x10, x17
        add     x5, sp, #MORE + FRAME   // A
        ldr     w4, [x30, #ENTRY_ID]
        bl      record_arguments
        restore_more
        done

// record_arguments writes the event of a call of id w4 with its arguments; record_flagged
// with the flags w6 besides. x10 is the table, x5 is A; save and save_more have the registers of the caller below it.
//
//   A - 128 ... -112   x5, x6, x7
//   A - 40 ... -8      x0, x1, x2, x3, x4
//   A                  the arguments that have no register
//
// Changes x0, x2, x3, x6, x11, x16, x17.
record_arguments:
        mov     w6, #0
record_flagged:
        str     x30, [sp, #-16]!
        sub     sp, sp, #BUFFER
        mov     x11, sp
        bl      capture
        orr     w4, w4, w6
        mrs     x0, cntvct_el0
        bl      write_arguments
        add     sp, sp, #BUFFER
        ldr     x30, [sp], #16
        ret

// write_arguments writes the event of time x0, id w4 and A x5 with the words of the
// buffer x11. Changes x2, x3, x16, x17. There must be room for several such: those of
// signal handlers which come before it.
        .set    ROOM, 512
write_arguments:
        stp     x12, x13, [sp, #-32]!
        str     x14, [sp, #16]
        ldr     w12, [x11]
        and     w12, w12, #63
        add     x2, x1, #THREAD_HEAD
        ldr     x3, [x2]
        add     x3, x3, #ROOM
        ldr     x16, [x1, #THREAD_LIMIT]
        cmp     x3, x16
        b.hs    4f
1:      ldxr    x3, [x2]
        add     x16, x3, x12
        add     x16, x16, #1
        stxr    w17, x16, [x2]
        cbnz    w17, 1b
        ldr     w16, [x1, #THREAD_MASK]
        ldr     x17, [x1, #THREAD_RING]
        mov     w13, #0
2:      cmp     w13, w12
        b.hs    3f
        add     w13, w13, #1
        add     w2, w3, w13
        and     w2, w2, w16
        add     x2, x17, x2, lsl #4
        ldr     x14, [x11, x13, lsl #3]
        str     x14, [x2]
        mov     w14, #WORD
        str     w14, [x2, #8]
        b       2b
3:      and     w3, w3, w16
        add     x3, x17, x3, lsl #4
        mov     w14, #1 << ROOT | NO_EXIT | WHOLE
        and     w14, w4, w14
        bfi     w14, w4, #0, #WORDS_SHIFT
        orr     w14, w14, w12, lsl #WORDS_SHIFT
        stp     w14, w5, [x3, #8]
        stlr    x0, [x3]
        b       5f
4:      ldr     w16, [x1, #THREAD_MASK]
        add     x17, x1, #THREAD_TAIL
        ldar    x17, [x17]
        add     x16, x16, x17
        sub     x16, x16, #63
        str     x16, [x1, #THREAD_LIMIT]
        cmp     x3, x16
        b.lo    1b
        add     x2, x1, #THREAD_LOST
        increment x2
5:      ldr     x14, [sp, #16]
        ldp     x12, x13, [sp], #32
        ret

// capture writes the arguments of the stub of id w4 to the buffer x11: the number of
// words u64, then the words. What there is to write says the record of the stub
// (patch/island.go), in a byte for each, up to one of 0: what it is, and in the low half
// which (from 0 on).
//
//   VALUE    integers and pointers as they are passed, 8 in registers, the others
//            on the stack: a word
//   STRING   the same, and where it points: the pointer, the length in the low
//            half of a word with flags above, and as many words as it takes
//   FLOAT    d0 to d7
//
// x5 and x10 are as for record_arguments. Changes x0, x2, x3, x16, x17.
        .set    RECORDS, 0x305000 - 0x3000
        .set    RECORD, 40
        .set    DESCRIPTION, 32
        .set    VALUE, 0x10
        .set    STRING, 0x20
        .set    FLOAT, 0x30
        .set    STRING_SIZE, 48
        .set    BUFFER, 16 + 8 * 64
        .set    CUT, 1 << 32            // the string is longer
        .set    BAD, 1 << 33            // there is no memory where it goes on
places: .byte   -5, -4, -3, -2, -1, -16, -15, -14 // x0 to x7, in words from A on
        .byte   0, 1, 2, 3, 4, 5, 6, 7
        .p2align 4
capture:
        stp     x30, x12, [sp, #-32]!
        stp     x13, x14, [sp, #16]
        adr     x16, start
        add     x16, x16, #RECORDS
        and     w2, w4, #0xffff
        mov     w3, #RECORD
        umaddl  x16, w2, w3, x16
        ldr     x12, [x16, #DESCRIPTION]
        add     x13, x11, #8
1:      ands    w0, w12, #0xff
        b.eq    3f
        lsr     x12, x12, #8
        and     w2, w0, #15
        cmp     w0, #FLOAT
        b.hs    2f
        adr     x16, places
        ldrsb   x16, [x16, x2]
        ldr     x14, [x5, x16, lsl #3]
        str     x14, [x13], #8
        cmp     w0, #STRING
        b.lo    1b
        bl      string
        b       1b
2:      adr     x16, floats
        add     x16, x16, x2, lsl #3
        blr     x16
        b       1b
3:      sub     x13, x13, x11
        lsr     x13, x13, #3
        sub     x13, x13, #1
        str     x13, [x11]
        ldp     x13, x14, [sp, #16]
        ldp     x30, x12, [sp], #32
        ret

floats:
        .irp    n, 0, 1, 2, 3, 4, 5, 6, 7
        str     d\n, [x13], #8
        ret
        .endr

// string writes the string at x14 to x13, which it moves. The kernel copies it,
// from this process to itself: a pointer to nowhere is an error there, and no
// signal here. It is asked for the rest of a page and the next one apart. x1 is the
// thread, x10 the table. Changes x0, x2, x3, x16, x17.
        .set    SYS_process_vm_readv, 270
string:
        mov     x2, #0
        cbz     x14, 4f
        sub     sp, sp, #96
        stp     x1, x4, [sp, #48]
        stp     x5, x8, [sp, #64]
        str     x30, [sp, #80]
        add     x0, x13, #8
        mov     x3, #STRING_SIZE
        stp     x0, x3, [sp]            // to
        and     x0, x14, #4095
        mov     x2, #4096
        sub     x0, x2, x0
        cmp     x0, x3
        csel    x0, x3, x0, hi
        stp     x14, x0, [sp, #16]      // from
        add     x2, x14, x0
        sub     x3, x3, x0
        stp     x2, x3, [sp, #32]       // and from
        ldr     w0, [x1, #THREAD_PID]
        mov     x1, sp
        mov     x2, #1
        add     x3, sp, #16
        mov     x4, #2
        mov     x5, #0
        mov     x8, #SYS_process_vm_readv
        bl      kernel
        ldp     x1, x4, [sp, #48]
        ldp     x5, x8, [sp, #64]
        ldr     x30, [sp, #80]
        add     sp, sp, #96
        mov     x2, #0
        cmp     x0, #0
        b.le    4f
        add     x3, x13, #8
3:      ldrb    w16, [x3, x2]
        cbz     w16, 5f
        add     x2, x2, #1
        cmp     x2, x0
        b.lo    3b
        orr     x2, x2, #CUT
        cmp     x0, #STRING_SIZE
        b.eq    5f
        and     x2, x2, #~CUT
4:      orr     x2, x2, #BAD
5:      add     w3, w2, #7
        and     w3, w3, #~7
        str     x2, [x13], #8
        add     x13, x13, x3
        ret

// kernel makes the system call of x8, which keeps all that is said not to be its
// result, but in the kernel not what SVE has more than other vectors have. Changes x0,
// x16.
kernel:
        ldr     x16, sve
        cbnz    x16, 1f
        svc     #0
        ret
1:      addvl   sp, sp, #-30
        addvl   sp, sp, #-5             // 32 vectors; 17 predicates have an eighth of one
        .irp    n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        str     p\n, [sp, #\n, mul vl]
        str     z\n, [sp, #(\n + 3), mul vl]
        .endr
        .irp    n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
        str     z\n, [sp, #(\n + 3), mul vl]
        .endr
        rdffr   p0.b
        str     p0, [sp, #16, mul vl]
        svc     #0
        ldr     p0, [sp, #16, mul vl]
        wrffr   p0.b
        .irp    n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        ldr     p\n, [sp, #\n, mul vl]
        ldr     z\n, [sp, #(\n + 3), mul vl]
        .endr
        .irp    n, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
        ldr     z\n, [sp, #(\n + 3), mul vl]
        .endr
        addvl   sp, sp, #5
        addvl   sp, sp, #30
        ret

// With filters each thread has a stack of its open calls, frames of 32 bytes as
// amd64.S has them: A u64, time u64, id u32, flags u32. A thread that goes to another
// stack records everything from then on.
        .set    NEAR, 0x4000
        .p2align 4
entry_filtered:
        save
        find_thread plain
        ldr     x0, [x1, #THREAD_WHOLE]
        cbnz    x0, entry_whole
        save_more
        mov     x10, x17
        add     x5, sp, #MORE + FRAME   // A
        ldr     x6, [sp, #MORE + RETURN]
        ldp     x7, x8, [x1, #THREAD_FRAMES]
        cbz     x8, 1f
        add     x0, x7, x8, lsl #5
        ldur    x0, [x0, #-32]
        ldr     x2, [x1, #THREAD_AT]
        cmp     x0, x2
        csel    x0, x0, x2, ls
        sub     x0, x0, #NEAR           // from there
        ldr     x2, [x7]
        add     x2, x2, #NEAR
        sub     x2, x2, x0
        sub     x0, x5, x0
        cmp     x0, x2
        b.hi    other_stack
1:      str     x5, [x1, #THREAD_AT]
        adr     x16, start
        mov     w9, #1                  // a tail call, its caller's frame is at A
        ldr     w3, [x16, #nranges - start]
        add     x4, x16, #ranges - start
1:      ldp     x0, x2, [x4], #16
        sub     x0, x6, x0
        cmp     x0, x2
        b.lo    2f
        subs    w3, w3, #1
        b.ne    1b
        mov     w9, #0                  // it is none
2:      ldr     w4, [x30, #ENTRY_ID]
        ldp     x7, x8, [x1, #THREAD_FRAMES]
3:      cbz     x8, 5f
        add     x0, x7, x8, lsl #5
        ldur    x2, [x0, #-32]
        cmp     x2, x5
        b.hi    5f
        b.lo    4f
        cbnz    w9, 5f
4:      bl      left_frame
        sub     x8, x8, #1
        ldr     w4, [x30, #ENTRY_ID]
        b       3b
5:      str     x8, [x1, #THREAD_DEPTH]
        cbnz    x8, 6f
        ldur    x2, [x10, #ROOTS]
        cbz     x2, 7f
        tbz     w4, #ROOT, unrecorded
        b       7f
6:      ldur    w2, [x0, #20 - 32]
        tbnz    w2, #MUTED, unrecorded
7:      ldur    x2, [x10, #MAX_DEPTH]
        cmp     x8, x2
        b.hs    unrecorded
        adr     x16, start
        ldp     x2, x3, [x16, #stacks - start]
        sub     x2, x5, x2
        cmp     x2, x3
        b.hs    other_stack
        cbnz    w9, unreturned          // else w9 is from here on the flags of the frame
        cbnz    x8, 8f
        ldur    x2, [x10, #PERIOD]
        cmp     x2, #1
        b.ls    8f
        ldr     w3, [x1, #THREAD_TURN]
        ldr     w0, multiplier
        mul     w3, w3, w0
        ldr     w0, addend
        add     w3, w3, w0              // at random, or every Nth call might be of one kind
        str     w3, [x1, #THREAD_TURN]
        umull   x2, w3, w2
        lsr     x2, x2, #32
        cbz     x2, 8f                  // one of N
        mov     w9, #1 << MUTED
8:      add     x7, x7, x8, lsl #5
        str     x5, [x7]
        add     x8, x8, #1
        str     x8, [x1, #THREAD_DEPTH]
        str     x5, [x7]                // a handler may just have been here
        str     w4, [x7, #16]
        tbnz    w4, #ARGUMENTS, frame_arguments
captured:
        mrs     x0, cntvct_el0
        str     x0, [x7, #8]
        cbnz    w9, 9f
        ldur    x2, [x10, #MIN_TIME]
        cbnz    x2, 9f
        mov     w9, #1 << WRITTEN
        str     w9, [x7, #20]
        bl      write
        b       10f
9:      str     w9, [x7, #20]
10:     ldr     x2, shadow
        str     x6, [x5, x2]
        restore_more
        mov     x16, #1
        done
// The arguments are kept with the frame, until it is known whether the call is
// recorded.
frame_arguments:
        cbnz    w9, captured
        buffer_of_frame
        str     xzr, [x11]              // as long as a handler may see the frame
        mrs     x0, cntvct_el0
        str     x0, [x7, #8]
        str     w9, [x7, #20]
        bl      capture
        b       captured
multiplier:
        .long   747796405
addend:
        .long   -1403630843
// A tail call: its end is that of its caller.
unreturned:
        mov     w6, #NO_EXIT
        ldur    x2, [x10, #MIN_TIME]
        cbnz    x2, unrecorded
        tbz     w4, #ARGUMENTS, 1f
        bl      record_flagged
        b       unrecorded
1:      orr     w4, w4, w6
        mrs     x0, cntvct_el0
        bl      write
unrecorded:
        restore_more
        b       plain

// On another stack.
other_stack:
        bl      record_whole
        mov     x17, x10
        restore_more
entry_whole:
        ldr     w0, [x30, #ENTRY_ID]
        tbnz    w0, #ARGUMENTS, 3f
        seen    2f
        record  ENTRY_ID, WHOLE
        b       hijack
2:      record  ENTRY_ID, WHOLE | NO_EXIT
        b       plain
3:      seen    4f
        mov     w0, #WHOLE
        b       5f
4:      mov     w0, #WHOLE | NO_EXIT
5:      save_more
        mov     w6, w0
        adr     x16, start
        sub     x17, x16, #HEADER
        ldr     x10, [x17]
        cbz     x10, 6f
        add     x5, sp, #MORE + FRAME   // A
        ldr     w4, [x30, #ENTRY_ID]
        bl      record_flagged
6:      tst     w6, #NO_EXIT
        restore_more
        b.ne    plain
        b       hijack

// record_whole has the thread record everything from here on. The calls that are open
// and not written come first. Changes x0, x2 to x5, x7, x8, x11, x16, x17.
record_whole:
        str     x30, [sp, #-16]!
        ldp     x7, x8, [x1, #THREAD_FRAMES]
1:      cbz     x8, 3f
        ldr     w2, [x7, #20]
        tst     w2, #1 << WRITTEN | 1 << MUTED
        b.ne    2f
        orr     w2, w2, #1 << WRITTEN
        str     w2, [x7, #20]
        ldr     x0, [x7, #8]
        ldr     w4, [x7, #16]
        orr     w4, w4, #WHOLE
        ldr     x5, [x7]
        bl      write
2:      add     x7, x7, #32
        sub     x8, x8, #1
        b       1b
3:      mov     x0, #1
        str     x0, [x1, #THREAD_WHOLE]
        ldr     x30, [sp], #16
        ret

// left_frame ends the innermost frame, of number x8, which was left. x7 is where frames
// are. Changes x0, x2, x3, x4, x11, x16, x17.
left_frame:
        sub     sp, sp, #48
        stp     x5, x6, [sp]
        stp     x7, x9, [sp, #16]
        str     x30, [sp, #32]
        mrs     x9, cntvct_el0
        mov     w6, #NO_EXIT
        bl      end_frame
        ldp     x5, x6, [sp]
        ldp     x7, x9, [sp, #16]
        ldr     x30, [sp, #32]
        add     sp, sp, #48
        ret

// end_frame ends the innermost frame, of number x8, at time x9: the exit is written, with
// the flag w6, if the entry is, or both if it took long enough. x7 is where frames are,
// x10 the table. Changes x0, x2 to x5, x7, x11, x16, x17.
end_frame:
        sub     sp, sp, #32
        stp     x30, x12, [sp]
        add     x12, x7, x8, lsl #5
        sub     x12, x12, #32
        ldr     w2, [x12, #20]
        tbnz    w2, #MUTED, 4f
        tbnz    w2, #WRITTEN, 3f
        ldr     x3, [x12, #8]
        sub     x3, x9, x3
        ldur    x2, [x10, #MIN_TIME]
        cmp     x3, x2
        b.lo    4f
1:      ldr     w2, [x7, #20]           // long enough: those above come first
        tst     w2, #1 << WRITTEN | 1 << MUTED
        b.ne    2f
        orr     w2, w2, #1 << WRITTEN
        str     w2, [x7, #20]
        ldr     x0, [x7, #8]
        ldr     w4, [x7, #16]
        ldr     x5, [x7]
        bl      write
2:      add     x7, x7, #32
        cmp     x7, x12
        b.ls    1b
3:      mov     x0, x9
        ldr     w4, [x12, #16]
        orr     w4, w4, #EXIT
        orr     w4, w4, w6
        ldr     x5, [x12]
        bl      write
4:      ldp     x30, x12, [sp]
        add     sp, sp, #32
        ret

        .p2align 4
exit_filtered:
        save
        find_thread restore
        ldr     x0, [x1, #THREAD_WHOLE]
        cbnz    x0, exit_found
        save_more
        mov     x10, x17
        add     x5, sp, #MORE + FRAME   // A
        str     x5, [x1, #THREAD_AT]
        ldp     x7, x8, [x1, #THREAD_FRAMES]
1:      cbz     x8, 4f
        add     x6, x7, x8, lsl #5
        ldur    x2, [x6, #-32]
        cmp     x2, x5
        b.hi    4f
        b.eq    2f
        bl      left_frame
        sub     x8, x8, #1
        b       1b
2:      mrs     x9, cntvct_el0
        mov     w6, #0
        bl      end_frame
        sub     x8, x8, #1
        str     x8, [x1, #THREAD_DEPTH]
3:      restore_more
        b       restore
4:      str     x8, [x1, #THREAD_DEPTH] // it seemed to have been left
        bl      record_whole
        b       3b

// chain counts the chain of return addresses, as amd64.S does. The ring's memory is a
// hash table of chains: count u64, number of addresses u32 (0: free, -1: being
// written), u32, addresses u64. Rows are {address u64, rule u64} by ascending address,
// the rule of a row goes up to the next; one of 0 ends the chain:
//
//   bits 0-31    CFA, the stack pointer before the call, less sp or x29
//   bits 32-46   where the caller's x29 is, in words from the CFA on; 0: in x29
//   bit 47       from 8 bytes below that sp or x29 on
//   bit 48       the CFA is from x29
//   bit 49       set; else nothing describes the code, and
//   bit 0        there may be a frame pointer
//   bit 1        there is none: by traced callers. Without bit 0 the function itself
//                is one, and bits 8-39 are its stub's id
//   bits 50-63   where the return address is, as in bits 32-46
//
//   x1, x17   thread, table                 x9        multiplier of hashes
//   x5        addresses that are wanted     x10, x11  addresses so far, their hash
//   x6        the CFA                       x12, x13  rows, cache of rows
//   x7        where its function returns    x14       the call before that
//   x8        x29 there
        .set    CHAIN, 256              // addresses
        .set    CHAIN_SAVED, CHAIN + 80
        .set    ADDRESS_BITS, 48        // above them is a signature
        .set    MAX_CALLERS, 32768      // frames of 32 bytes
        .set    LARGEST_FRAME, 0x1000000
        .set    FROM_BASE, 47
        .set    FROM_X29, 48
        .set    DESCRIBED, 49

        .macro  append
        str     x7, [sp, x10, lsl #3]
        add     w10, w10, #1
        eor     x11, x11, x7
        mul     x11, x11, x9
        cmp     w10, w5
        b.hs    chain_count
        .endm

        .p2align 4
chain:
        save
        find_thread chain_left
        sub     sp, sp, #CHAIN_SAVED
        stp     x5, x6, [sp, #CHAIN]
        stp     x7, x8, [sp, #CHAIN + 16]
        stp     x9, x10, [sp, #CHAIN + 32]
        stp     x11, x12, [sp, #CHAIN + 48]
        stp     x13, x14, [sp, #CHAIN + 64]
        add     x2, x1, #THREAD_HEAD
        increment x2
        ldur    w5, [x17, #CHAIN_DEPTH]
        add     x6, sp, #CHAIN_SAVED + FRAME // what is above is the callers'
        ldr     x7, [sp, #CHAIN_SAVED + RETURN]
        mov     x8, x29
        mov     x9, #0x7c15
        movk    x9, #0x7f4a, lsl #16
        movk    x9, #0x79b9, lsl #32
        movk    x9, #0x9e37, lsl #48
        mov     x11, #0
        mov     w10, #0
        ldur    x12, [x17, #ROWS]
        ldur    x13, [x17, #CACHE]

// If the function returns into a stub it is a traced call, or its tail call: the
// caller's address is in the shadow.
returned:
        ubfx    x7, x7, #0, #ADDRESS_BITS
        cbz     x7, chain_count
        adr     x16, start
        ldr     w3, [x16, #nranges - start]
        add     x4, x16, #ranges - start
1:      ldp     x0, x2, [x4], #16
        sub     x0, x7, x0
        cmp     x0, x2
        b.lo    2f
        subs    w3, w3, #1
        b.ne    1b
        b       next_caller
2:      ldr     x0, [x16]               // shadow
        ldr     x7, [x6, x0]
        ubfx    x7, x7, #0, #ADDRESS_BITS
        cbz     x7, chain_count
next_caller:
        append
        sub     x14, x7, #1
        mul     x2, x14, x9
        lsr     x2, x2, #50
        add     x2, x13, x2, lsl #2     // the cache's place
        ldr     w3, [x2]
        add     x3, x12, x3, lsl #4
        ldr     x0, [x3]
        cmp     x14, x0
        b.lo    find_row
        ldr     x0, [x3, #16]
        cmp     x14, x0
        b.hs    find_row
row_found:
        ldr     x2, [x3, #8]
        tbz     x2, #DESCRIBED, undescribed
        mov     x4, x6
        tbz     x2, #FROM_X29, 1f
        mov     x4, x8
1:      add     x3, x4, w2, sxtw
        sub     x0, x3, x6              // the stack grows by a positive, small number
        sub     x0, x0, #1
        mov     x16, #LARGEST_FRAME
        cmp     x0, x16
        b.hs    chain_count
        mov     x6, x3
        tbz     x2, #FROM_BASE, 2f
        sub     x3, x4, #8
2:      sbfx    x0, x2, #32, #15
        cbz     x0, 3f
        ldr     x8, [x3, x0, lsl #3]
3:      asr     x0, x2, #50
        ldr     x7, [x3, x0, lsl #3]
        b       returned

// Without a description the traced callers tell where the function was called, if
// it is one of them: see amd64.S. A callee's A is where the caller's stack ends.
undescribed:
        tbz     x2, #1, by_pointer
        ldr     x3, [x1, #THREAD_DEPTH]
        cmp     x3, #MAX_CALLERS
        b.hs    chain_count
        ldr     x4, [x1, #THREAD_FRAMES]
        add     x3, x4, x3, lsl #5
        mov     x16, #LARGEST_FRAME
2:      cmp     x3, x4
        b.eq    4f
        sub     x3, x3, #32
        ldr     x0, [x3]
        subs    x0, x0, x6
        b.ls    2b
        cmp     x0, x16
        b.hi    4f                      // of another stack
        tbnz    x2, #0, 3f
        ubfx    x0, x2, #8, #32
        ldr     w14, [x3, #16]
        cmp     w14, w0
        b.ne    2b                      // left by longjmp
        b       5f
3:      ldr     x7, [x3, #24]
        append
5:      add     x2, x1, #THREAD_TRACED
        ldp     x6, x8, [x3]
        ldr     x0, shadow
        ldr     x7, [x6, x0]
        ubfx    x7, x7, #0, #ADDRESS_BITS
        increment x2
        b       next_caller
4:      tbz     x2, #0, chain_count

// Without a description a frame pointer is tried, as compilers for arm64 keep it: it
// points to that of the caller, and above it lies where the function returns to. It is
// followed only within the thread's stack, and upwards. One that is none may skip
// callers, but does no harm.
by_pointer:
        tbz     x2, #0, chain_count
        ldp     x3, x4, [x1, #THREAD_LOW]
        cbz     x4, 7f
        sub     x4, x4, #16
        cmp     x6, x3
        b.lo    7f
        cmp     x6, x4
        b.hi    7f
        cmp     x8, x6
        b.lo    chain_count
        cmp     x8, x4
        b.hi    chain_count
        tst     x8, #7
        b.ne    chain_count
        add     x2, x1, #THREAD_POINTERS
        increment x2
        add     x6, x8, #16
        ldp     x8, x7, [x8]
        b       returned
7:      str     x6, [x1, #THREAD_ASKS]
        b       chain_count

find_row:                               // of x14; the cache's place is x2
        mov     x3, #0                  // rows[x3] <= x14 < rows[x4]
        ldur    x4, [x17, #ROW_COUNT]
1:      add     x0, x3, x4
        lsr     x0, x0, #1
        cmp     x0, x3
        b.eq    3f
        lsl     x16, x0, #4
        ldr     x16, [x12, x16]
        cmp     x14, x16
        b.lo    2f
        mov     x3, x0
        b       1b
2:      mov     x4, x0
        b       1b
3:      str     w3, [x2]
        add     x3, x12, x3, lsl #4
        b       row_found

chain_count:
        cbz     w10, chain_done
        lsr     x11, x11, #20
        ldur    w2, [x17, #CHAIN_SHIFT]
        ldr     w4, [x1, #THREAD_MASK]
        add     x4, x4, #1
        lsl     x4, x4, #4              // bytes of the table
        lsr     x4, x4, x2
        sub     x4, x4, #1
        mov     w14, #32                // tries
        ldr     x5, [x1, #THREAD_RING]
5:      and     x11, x11, x4
        lsl     x6, x11, x2
        add     x6, x5, x6
        add     x13, x6, #8
        add     x12, x6, #16
        ldr     w7, [x13]
        cbz     w7, 7f
        cmp     w7, w10
        b.ne    9f
        mov     w8, w10
6:      sub     w8, w8, #1
        ldr     x9, [sp, x8, lsl #3]
        ldr     x0, [x12, x8, lsl #3]
        cmp     x9, x0
        b.ne    9f
        cbnz    w8, 6b
        increment x6
        b       chain_done
7:      ldxr    w7, [x13]               // against handlers of this thread only
        cbnz    w7, 8f
        mov     w9, #-1
        stxr    w16, w9, [x13]
        cbnz    w16, 5b
        mov     x9, #1
        str     x9, [x6]
        mov     w8, w10
10:     sub     w8, w8, #1
        ldr     x9, [sp, x8, lsl #3]
        str     x9, [x12, x8, lsl #3]
        cbnz    w8, 10b
        stlr    w10, [x13]
        b       chain_done
8:      clrex
9:      add     x11, x11, #1
        subs    w14, w14, #1
        b.ne    5b
        add     x2, x1, #THREAD_LOST
        increment x2
chain_done:
        ldp     x5, x6, [sp, #CHAIN]
        ldp     x7, x8, [sp, #CHAIN + 16]
        ldp     x9, x10, [sp, #CHAIN + 32]
        ldp     x11, x12, [sp, #CHAIN + 48]
        ldp     x13, x14, [sp, #CHAIN + 64]
        add     sp, sp, #CHAIN_SAVED
chain_left:
        ldr     w16, [x30, #ENTRY_ID]
        tbnz    w16, #ROOT, caller_saved // it is a caller, too
        done

// entry_caller notes a call in the thread's frames: A u64, x29 u64, id u32, u32, where
// the function begins behind its site u64. exit_caller forgets it. What lies below the
// A of a new call was left by longjmp; at A is one whose tail call this is: its frame
// becomes that of the new one.
        .p2align 4
entry_caller:
        save
caller_saved:
        find_thread plain
        save_more
        add     x5, sp, #MORE + FRAME   // A
        ldr     x6, [sp, #MORE + RETURN]
        adr     x16, start
        ldp     x2, x3, [x16, #stacks - start]
        sub     x2, x5, x2
        cmp     x2, x3
        b.hs    unrecorded
        ldr     w2, [x30, #8]           // the stub's bl, at 16
        sbfx    x2, x2, #0, #26
        add     x10, x30, #8
        add     x10, x10, x2, lsl #2
        ldr     w4, [x30, #ENTRY_ID]
        ubfx    w4, w4, #0, #WORDS_SHIFT
        mov     w9, #1                  // a tail call
        ldr     w3, [x16, #nranges - start]
        add     x11, x16, #ranges - start
1:      ldp     x0, x2, [x11], #16
        sub     x0, x6, x0
        cmp     x0, x2
        b.lo    2f
        subs    w3, w3, #1
        b.ne    1b
        mov     w9, #0                  // it is none
2:      ldp     x7, x8, [x1, #THREAD_FRAMES]
3:      cbz     x8, 5f
        add     x0, x7, x8, lsl #5
        ldur    x2, [x0, #-32]
        cmp     x2, x5
        b.hi    5f
        b.lo    4f
        cbnz    w9, 7f
4:      sub     x8, x8, #1
        b       3b
5:      str     x8, [x1, #THREAD_DEPTH]
        cbnz    w9, unrecorded
        cmp     x8, #MAX_CALLERS
        b.hs    unrecorded
        add     x7, x7, x8, lsl #5
        add     x8, x8, #1
6:      stp     x5, x29, [x7]
        str     w4, [x7, #16]
        str     x10, [x7, #24]
        str     x8, [x1, #THREAD_DEPTH]
        ldr     x0, [x7]
        cmp     x0, x5
        b.ne    6b                      // a signal handler was here
        ldr     x2, shadow
        str     x6, [x5, x2]
        restore_more
        mov     x16, #1
        done
7:      str     x8, [x1, #THREAD_DEPTH]
        stur    w4, [x0, #16 - 32]
        stur    x10, [x0, #24 - 32]
        b       unrecorded

        .p2align 4
exit_caller:
        save
        find_thread restore
        add     x0, sp, #FRAME          // A
        ldp     x2, x3, [x1, #THREAD_FRAMES]
1:      cbz     x3, 2f
        add     x4, x2, x3, lsl #5
        ldur    x4, [x4, #-32]
        cmp     x4, x0
        b.hi    2f
        sub     x3, x3, #1
        b       1b
2:      str     x3, [x1, #THREAD_DEPTH]
        b       restore

// notice is called by the function that the dynamic linker calls before and after its
// list of libraries changes: see amd64.S.
        .set    EXTENSIONS, 3
        .set    SYS_futex, 98
        .set    SYS_clock_gettime, 113
        .set    CLOCK_MONOTONIC, 1
        .set    FUTEX_WAKE, 1
        .set    FUTEX_WAIT_BITSET, 9    // with a time, not a duration
        .set    EINTR, 4
        .set    EAGAIN, 11
        .p2align 4
notice:
        save
        sub     sp, sp, #64
        stp     x5, x6, [sp, #16]       // below: struct timespec
        stp     x7, x8, [sp, #32]
        stp     x9, x10, [sp, #48]
        adr     x6, start
        sub     x9, x6, #PROCESS
        sub     x6, x6, #HEADER
        ldr     x6, [x6]
        cbz     x6, 9f
        ldur    x0, [x6, #STATE]
        ldr     w0, [x0]
        cbnz    w0, 9f                  // not RT_CONSISTENT of <link.h>
        ldr     w0, [x9]
        ldur    w1, [x6, #PID]
        cmp     w0, w1
        b.ne    9f
        sub     x0, x6, #-NOTICES
1:      ldaxr   w7, [x0]
        add     w7, w7, #1              // the number of this notice
        stlxr   w1, w7, [x0]
        cbnz    w1, 1b
        mov     x1, #FUTEX_WAKE
        mov     w2, #0x7fffffff
        mov     x8, #SYS_futex
        svc     #0
        ldur    w0, [x6, #ANSWERING]
        cbz     w0, 8f
        mov     x0, #CLOCK_MONOTONIC
        mov     x1, sp
        mov     x8, #SYS_clock_gettime
        svc     #0
        cbnz    x0, 8f
        mov     x8, #SYS_futex
        mov     w9, #EXTENSIONS
2:      ldur    w10, [x6, #BEAT]
        ldp     x1, x0, [sp]
        ldur    x2, [x6, #PATIENCE]
        add     x0, x0, x2
        mov     w2, #0xca00             // 1000000000
        movk    w2, #0x3b9a, lsl #16
3:      cmp     x0, x2
        b.lo    4f
        sub     x0, x0, x2
        add     x1, x1, #1
        b       3b
4:      stp     x1, x0, [sp]
5:      sub     x0, x6, #-ANSWERED
        ldar    w2, [x0]
        subs    w1, w2, w7
        b.pl    9f
        mov     x1, #FUTEX_WAIT_BITSET
        mov     x3, sp
        mov     x4, #0
        mov     w5, #-1
        svc     #0
        cbz     x0, 5b
        cmn     x0, #EINTR
        b.eq    5b
        cmn     x0, #EAGAIN
        b.eq    5b
        subs    w9, w9, #1              // ETIMEDOUT
        b.eq    8f
        ldur    w0, [x6, #BEAT]
        cmp     w0, w10
        b.ne    2b
8:      stur    wzr, [x6, #ANSWERING]
        sub     x0, x6, #-UNANSWERED
7:      ldxr    w1, [x0]
        add     w1, w1, #1
        stxr    w2, w1, [x0]
        cbnz    w2, 7b
9:      ldp     x5, x6, [sp, #16]
        ldp     x7, x8, [sp, #32]
        ldp     x9, x10, [sp, #48]
        add     sp, sp, #64
        done
notice_end:

// probe looks further for the thread of id w0, from x1 on in the table x17, and
// takes a free place. x1: the thread, or 0. Changes x2, x3, x16.
probe:
        cbz     w0, 8f
        mov     w3, #threads
1:      ldar    w2, [x1]                // before the one beside it
        cmp     w2, w0
        b.eq    9f
        cbnz    w2, 4f
2:      ldaxr   w2, [x1]
        cbnz    w2, 3f
        stlxr   w2, w0, [x1]
        cbnz    w2, 2b
        adr     x3, start
        sub     x3, x3, #PROCESS
        ldr     w2, [x3]
        cbnz    w2, 5f
        mov     w2, w0                  // the thread that fork has made
        str     w2, [x3]
5:      str     w2, [x1, #THREAD_PID]
9:      ret
3:      clrex
        cmp     w2, w0                  // a signal handler of this thread was faster
        b.eq    9b
4:      ldr     w2, [x1, #THREAD_MUTED]
        cmp     w2, w0
        b.eq    5f
        add     x1, x1, #128
        add     x16, x17, #threads * 128
        cmp     x1, x16
        csel    x1, x17, x1, eq
        subs    w3, w3, #1
        b.ne    1b
8:      sub     x2, x17, #-NO_THREAD
7:      ldxr    x3, [x2]                // of all threads
        add     x3, x3, #1
        stxr    w16, x3, [x2]
        cbnz    w16, 7b
5:      mov     x1, #0
        ret
