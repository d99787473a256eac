# The code that runs inside the watched program: what happens between a site
# and the function behind it, and after the function.
#
# It is position independent and lies in an island, memory like this
# (patch/island.go makes it):
#
#   0x0000   header: address of the table of threads, 0: record nothing.
#            A child made by fork finds zeros here (MADV_WIPEONFORK), unless
#            children are followed.
#   0x1000   id of the process, as it sees itself. A child made by fork always
#            finds 0, and puts the id of its first thread there: no system call
#            tells that, which a filter of the program might not allow
#   0x2000   what footfall itself keeps there
#   0x3000   this code
#   0x5000   stubs, 48 bytes each; the site is a jump to one
#
# A stub is one of these (patch/amd64.go writes them):
#
#    0  push $id                       0  push $id
#    5  call entry                     5  call entry
#   10  add  $16,%rsp    replaced     10  lea  8(%rsp),%rsp
#   14  jmp  *-16(%rsp)               15  jmp  function
#   30  add  $8,%rsp     not replaced
#   34  jmp  function
#   40  which arguments are recorded      40  the same
#
# Where all exits of a function have room for a jump, these are sites, too, and nothing
# is done to the stack; then its stub is the right one, with filters both (at 10 and at
# 30 the same). The stub of an exit runs the instructions which it replaces:
#
#       pop  %rbx            what was before it
#       push $id
#       call exit_only
#       lea  8(%rsp),%rsp
#       ret                  or a jump
#
# The stack pointer is there what it was at the entry, so that A is the same.
#
# The left one sees the exit otherwise: entry leaves at 8 below A the address of a
# return stub, which calls the function, so that the return address in A, the slot of the
# stack which had the caller's, is 6 of that stub:
#
#    0  call *RETURN_RESUME    the function
#    6  push RETURN_ADDRESS    A is as it was
#   12  push RETURN_ID
#   18  call *RETURN_EXIT      exit_only, for one
#   24  lea  8(%rsp),%rsp
#   29  ret
#
# There is one for each function and return address, with a place in a table, which is
# as far in front of it as all the stubs are long. Whoever returns through it lands where
# the call was made: whatever stack it is on, and wherever that has been copied. Calls and
# returns stay paired for the processor.
#
# All registers are preserved, also those that calls may change: with -fipa-ra
# compilers rely on what a function really does. Flags are not: they are dead at
# entries and exits.
#
# The table: threads of 128 bytes, found by the thread's id, hashed. Only the
# thread itself (with its signal handlers) writes, but for tail.

        .set    HEADER, start - 0x3000
        .set    PROCESS, start - 0x2000
        .set    threads, 1024
        .set    THREAD_ID, 0            # u32; 0: free; -1: its thread is muted
        .set    THREAD_MUTED, 4         # u32; the id of that
        .set    THREAD_HEAD, 8          # events that were begun
        .set    THREAD_LIMIT, 16        # head may go there without a look at tail
        .set    THREAD_RING, 24         # address of the events
        .set    THREAD_LOST, 32
        .set    THREAD_MASK, 40         # u32; events in the ring, less one
        .set    THREAD_TURN, 44         # u32, a random number; for sampling
        .set    THREAD_FRAMES, 48       # address of the open calls, for filters
        .set    THREAD_DEPTH, 56        # their number
        .set    THREAD_TAIL, 64         # events that were read
        .set    THREAD_PID, 72          # u32; its process: children made by fork are there, too
        .set    THREAD_LOW, 80          # its stack, as far as it is known
        .set    THREAD_TOP, 88
        .set    THREAD_ASKS, 96         # an address in its stack, if that is to be known
        .set    THREAD_POINTERS, 104    # steps by frame pointers
        .set    THREAD_TRACED, 112      # steps by traced callers
# With filters:
        .set    THREAD_AT, 80           # A of the last call
        .set    THREAD_WHOLE, 88        # not 0: it records everything, and is filtered when read

# Settings, before the table.
        .set    MAX_DEPTH, -64
        .set    MIN_TIME, -56
        .set    PERIOD, -48
        .set    ROOTS, -40              # not 0: record below roots only
        .set    NO_THREAD, -32          # calls for which the table was full
        .set    CHAIN_DEPTH, -24        # u32
        .set    CHAIN_SHIFT, -20        # u32; log2 of a chain's size
        .set    ROWS, -16               # address of the unwind rows
        .set    ROW_COUNT, -8
        .set    CACHE, -72              # address of the cache of rows
        .set    PID, -80                # u32; of the process, as it sees itself
        .set    ANSWERING, -84          # u32; 0: footfall does not answer notices
        .set    BEAT, -88               # u32; changes as long as it works on one
        .set    ANSWERED, -92           # u32; the notice up to which it has looked
        .set    NOTICES, -96            # u32; how many there were
        .set    PATIENCE, -104          # nanoseconds that a thread waits without a beat
        .set    STATE, -112             # address of r_state of the dynamic linker
        .set    RINGS, -296             # address of the rings that are to be had, in turn: {ring, open calls}
        .set    RINGS_GIVEN, -288       # how many there were
        .set    RINGS_TAKEN, -280
        .set    NO_RING, -272           # calls for which there was none
        .set    NO_RETURN, -264         # calls for which there was no return stub
        .set    NO_POINTER, -128        # calls by threads that have no thread pointer
        .set    UNASKED, -120           # u32; not 0: the program filters its system calls
        .set    READABLE, -256          # of the program: 8 pairs of address and size
        .set    UNANSWERED, -116        # u32; notices for whose answer nobody has waited to the end

        .set    EXIT, 0x80000000        # in an event's id
        .set    ROOT, 0x40000000        # in a stub's id; where chains are counted: it is a caller, too
        .set    ARGUMENTS, 0x20000000   # in a stub's id: it has a description of them
        .set    WORD, 0x10000000        # in an event's id: it is a word of the one before
        .set    WORDS_SHIFT, 20         # in an event's id: how many words follow, 6 bits
        .set    ID, 0xfffff             # in both: which site
        .set    SITES, 0x08000000       # in a stub's id: the function's exits are sites
        .set    UNSEEN, 0x04000000      # in a stub's id: they are not seen
        .set    WHOLE, 0x08000000       # in an entry's id: no filter was asked
        .set    JUMP, 0x08000000        # in an exit's id: a jump to another site, a tail call
        .set    NO_EXIT, 0x04000000     # in an event's id: of an entry, it has no exit of its own; of an exit, the call was left
        .set    WRITTEN, 1              # of frames
        .set    MUTED, 2
        .set    JUMPED, 4               # and when is in the last word
        .set    PENDING, 8              # where to has yet to be seen

# Of the place of a return stub.
        .set    RETURN_ADDRESS, 0
        .set    RETURN_RESUME, 8        # where the function goes on behind its site
        .set    RETURN_ID, 16           # u32; and what the place is:
        .set    RETURN_TAKEN, 1 << 33   # somebody writes it
        .set    RETURN_READY, 1 << 32
        .set    RETURN_EXIT, 24         # routine

        .text
start:
returns:.quad   0                       # the return stubs that are to be used
tid_at: .quad   0                       # where %fs has the thread's id
nranges:.quad   0
ranges: .fill   16, 8, 0                # of all return stubs: address, size
returns_size: .quad 0                   # of those to be used, a power of 2
        .org    0x100
        .long   entry - start, exit_only - start
        .long   entry_only - start, count - start, chain - start
        .long   entry_filtered - start, exit_filtered - start
        .long   entry_arguments - start
        .long   entry_caller - start, exit_caller - start
        .long   notice - start, notice_end - start
        .long   exit_only - start, exit_filtered_only - start
        .org    0x140

# thread_id sets %eax to what is at %rax from the thread pointer on, or goes to \none if
# there is no such pointer. It changes %rdx. Where all threads have one, or the processor
# has no rdfsbase, the jump becomes mov %fs:(%rax),%eax (patch/amd64.go, which finds it by
# where the code below goes back).
        .macro  thread_id none
        .byte   0xe9                    # jmp
        .long   7f - . - 4
6:
        .subsection 1
7:      rdfsbase %rdx
        test    %rdx, %rdx
        .byte   0x0f, 0x84              # jz
        .long   \none - . - 4
        mov     (%rdx,%rax), %eax
        .byte   0xe9                    # jmp
        .long   6b - . - 4
        .previous
        .endm

# find_thread sets %rsi to the thread, or goes to \skip if nothing is to be
# recorded. Changes %rax, %rcx, %rdx.
        .macro  find_thread skip
        mov     HEADER(%rip), %rsi
        mov     tid_at(%rip), %rax
        test    %rsi, %rsi
        jz      \skip
        thread_id 3f
        imul    $0x9E3779B1, %eax, %edx
        shr     $22, %edx
        shl     $7, %edx
        cmp     %eax, (%rsi,%rdx)
        jne     1f
        add     %rdx, %rsi
2:
        .subsection 1
1:      call    probe
        test    %rsi, %rsi
        jz      \skip
        jmp     2b
3:      lock incq NO_POINTER(%rsi)
        jmp     \skip
        .previous
        .endm

# record writes an event of 16 bytes: time u64, id u32, low half of A u32. The
# time comes last: as long as it is 0 the event is not there. head grows by one
# unlocked instruction: only a signal handler of the same thread can come
# between. The limit leaves room for those that come before it.
        .macro  record id, slot, flag=0
        mov     THREAD_HEAD(%rsi), %rcx
        cmp     THREAD_LIMIT(%rsi), %rcx
        jae     3f
4:      mov     $1, %ecx
        xadd    %rcx, THREAD_HEAD(%rsi)
        rdtsc
        shl     $32, %rdx
        or      %rdx, %rax
        and     THREAD_MASK(%rsi), %ecx
        shl     $4, %rcx
        add     THREAD_RING(%rsi), %rcx
        mov     \id, %edx
        .if     \flag
        or      $\flag, %edx
        .endif
        mov     %edx, 8(%rcx)
        lea     \slot, %rdx
        mov     %edx, 12(%rcx)
        mov     %rax, (%rcx)
5:
        .subsection 1
3:      mov     THREAD_MASK(%rsi), %edx
        add     THREAD_TAIL(%rsi), %rdx
        sub     $63, %rdx
        mov     %rdx, THREAD_LIMIT(%rsi)
        jz      5b                      # there are no events in this mode
        cmp     %rdx, %rcx
        jb      4b
        incq    THREAD_LOST(%rsi)
        jmp     5b
        .previous
        .endm

        .macro  save
        push    %rax
        push    %rdx
        push    %rcx
        push    %rsi
        .endm

        .macro  done
        pop     %rsi
        pop     %rcx
        pop     %rdx
        pop     %rax
        ret
        .endm

# After save in an entry:                in an exit:
#   rsp + 32   return into the stub        rsp + 32   return into the stub
#   rsp + 40   id                          rsp + 40   A, which has the id
#   rsp + 48   A

# return_stub sets %rdi to the return stub of a call, which goes into the place of the id;
# to 0 if it can have none. exit is the routine of its exit, above how much is on the stack
# besides what save put there. Changes %rax, %rcx, %rdx, %r8.
        .macro  return_stub exit, above
        lea     \exit(%rip), %rdi
        lea     \above(%rsp), %r8
        call    find_return
        .endm

        .p2align 6
entry:
        save
        find_thread plain
        push    %rdi
        push    %r8
        return_stub exit_only, 16
entry_found:
        test    %rdi, %rdi
        jz      1f
        record  56(%rsp), 64(%rsp)
        mov     %rdi, 56(%rsp)
        pop     %r8
        pop     %rdi
        done
1:      record  56(%rsp), 64(%rsp), NO_EXIT
        pop     %r8
        pop     %rdi
plain:
        addq    $20, 32(%rsp)           # to 30 of the stub
        done

# find_return is return_stub, with the routine in %rdi and in %r8 where save put registers.
# A call that returns to a return stub is a tail call: it can have none.
find_return:
        mov     48(%r8), %rax
        mov     %rax, %rdx
        sub     ranges(%rip), %rdx
        cmp     ranges + 8(%rip), %rdx
        jb      8f
        cmpl    $1, nranges(%rip)
        ja      7f
1:      push    %rsi
        push    %r9
        push    %r10
        push    %r11
        mov     32(%r8), %r9            # 10 of the stub, which at 34 jumps to
        movslq  25(%r9), %rdx           # where the function goes on
        lea     29(%r9,%rdx), %r9
        mov     40(%r8), %edx
        and     $ID, %edx
        bts     $32, %rdx               # READY
        mov     returns(%rip), %r10
        mov     returns_size(%rip), %rsi
        mov     %rdx, %rcx
        shl     $32, %rcx
        xor     %rax, %rcx
        mov     $0x9E3779B97F4A7C15, %r11
        imul    %r11, %rcx
        shr     $32, %rcx
        mov     $32, %r11d              # tries
2:      shl     $5, %rcx
        dec     %rsi
        and     %rsi, %rcx
        inc     %rsi
        lea     (%r10,%rcx), %r8
        sub     %rsi, %r8               # its place
        shr     $5, %rcx
        inc     %ecx
        push    %rcx
        mov     RETURN_ID(%r8), %rcx
        cmp     %rdx, %rcx
        jne     3f
        cmp     %rax, RETURN_ADDRESS(%r8)
        je      5f
        jmp     4f
3:      test    %rcx, %rcx
        jnz     4f
        mov     $RETURN_TAKEN, %rcx
        push    %rax
        xor     %eax, %eax
        lock cmpxchg %rcx, RETURN_ID(%r8)
        pop     %rax
        jne     4f                      # somebody else, maybe for the same
        mov     %rax, RETURN_ADDRESS(%r8)
        mov     %r9, RETURN_RESUME(%r8)
        mov     %rdi, RETURN_EXIT(%r8)
        mov     %rdx, RETURN_ID(%r8)    # now others see it
        jmp     5f
4:      pop     %rcx
        dec     %r11d
        jnz     2b
        xor     %edi, %edi
        jmp     6f
5:      pop     %rcx
        lea     (%r8,%rsi), %rdi
6:      pop     %r11
        pop     %r10
        pop     %r9
        pop     %rsi
        test    %rdi, %rdi
        jnz     9f
        mov     HEADER(%rip), %rax
        test    %rax, %rax
        jz      9f
        lock incq NO_RETURN(%rax)
9:      ret
7:      call    in_returns
        jnc     1b
8:      xor     %edi, %edi
        ret

        .p2align 6
entry_only:
        save
        find_thread nothing
        record  40(%rsp), 48(%rsp)
nothing:
        done

        .p2align 6
exit_only:
        save
        find_thread nothing
exit_only_found:
        record  40(%rsp), 48(%rsp), EXIT
        done

        .p2align 6
count:
        save
        find_thread nothing
        mov     40(%rsp), %eax
        mov     THREAD_RING(%rsi), %rcx
        incq    (%rcx,%rax,8)
        done

# probe looks further for the thread of id %eax, from offset %rdx of the table
# %rsi on, and takes a free place. %rsi: the thread, or 0, also if it is muted.
probe:
        push    %rdi
        mov     $threads, %edi
        test    %eax, %eax
        jz      8f
7:      mov     (%rsi,%rdx), %ecx
        cmp     %eax, %ecx
        je      9f
        test    %ecx, %ecx
        jnz     1f
        mov     %eax, %edi              # it is muted until it has a ring
        mov     %eax, %ecx
        shl     $32, %rcx
        mov     $0xffffffff, %eax
        or      %rax, %rcx
        xor     %eax, %eax
        lock cmpxchg %rcx, (%rsi,%rdx)
        je      2f
        mov     %eax, %ecx
        mov     %edi, %eax
        mov     $threads, %edi          # from here on anew
        cmp     %ecx, %eax              # a signal handler of this thread was faster
        je      9f
1:      cmp     %eax, THREAD_MUTED(%rsi,%rdx)
        je      5f
        add     $128, %edx
        and     $(threads * 128 - 1), %edx
        dec     %edi
        jnz     7b
8:      lock incq NO_THREAD(%rsi)
3:      xor     %esi, %esi
        pop     %rdi
        ret
5:      cmpq    $0, THREAD_RING(%rsi,%rdx)
        jne     3b
        lock incq NO_RING(%rsi)         # footfall has yet to map more
        jmp     3b
2:      mov     PROCESS(%rip), %eax
        test    %eax, %eax
        jnz     4f
        mov     %edi, PROCESS(%rip)     # the thread that fork has made
        mov     %edi, %eax
4:      mov     %eax, THREAD_PID(%rsi,%rdx)
        cmpq    $0, THREAD_RING(%rsi,%rdx)
        jne     2f
        push    %rbx
        push    %rdi
        mov     RINGS_TAKEN(%rsi), %rax
1:      cmp     RINGS_GIVEN(%rsi), %rax
        jae     4f
        mov     %eax, %edi
        and     $(threads - 1), %edi
        shl     $4, %rdi
        add     RINGS(%rsi), %rdi
        mov     (%rdi), %rcx
        mov     8(%rdi), %rdi
        lea     1(%rax), %rbx
        lock cmpxchg %rbx, RINGS_TAKEN(%rsi)
        jne     1b
        mov     %rdi, THREAD_FRAMES(%rsi,%rdx)
        mov     %rcx, THREAD_RING(%rsi,%rdx)
        pop     %rdi
        pop     %rbx
2:      mov     %rdi, (%rsi,%rdx)       # id, and muted no more
9:      add     %rdx, %rsi
        pop     %rdi
        ret
4:      pop     %rdi
        pop     %rbx
        jmp     5b

# write writes the event of time %rax, id %r9d and A %r8; where the id says so
# with the arguments of the frame %rdi. Changes %rcx, %rdx, %r9.
write:
        mov     %r9d, %ecx
        and     $(EXIT | ARGUMENTS), %ecx
        cmp     $ARGUMENTS, %ecx
        je      write_frame
        mov     THREAD_HEAD(%rsi), %rcx
        cmp     THREAD_LIMIT(%rsi), %rcx
        jae     2f
1:      mov     $1, %ecx
        xadd    %rcx, THREAD_HEAD(%rsi)
        and     THREAD_MASK(%rsi), %ecx
        shl     $4, %rcx
        add     THREAD_RING(%rsi), %rcx
        mov     %r9d, 8(%rcx)
        mov     %r8d, 12(%rcx)
        mov     %rax, (%rcx)
        ret
2:      mov     THREAD_MASK(%rsi), %ecx
        add     THREAD_TAIL(%rsi), %rcx
        sub     $63, %rcx
        mov     %rcx, THREAD_LIMIT(%rsi)
        jz      3f                      # there are no events in this mode
        cmp     %rcx, THREAD_HEAD(%rsi)
        jb      1b
        incq    THREAD_LOST(%rsi)
3:      ret

# buffer_of_frame sets %r11 to the buffer of the frame %rdi.
        .macro  buffer_of_frame
        mov     %rdi, %r11
        sub     THREAD_FRAMES(%rsi), %r11
        shl     $4, %r11                # of 32 bytes 512
        add     $0x8000, %r11
        add     THREAD_FRAMES(%rsi), %r11
        .endm

write_frame:
        push    %r11
        buffer_of_frame
        call    write_arguments
        pop     %r11
        ret

# Arguments are recorded in words of 64 bits, each in the place of an event after
# the one of the call, which has their number. All these places are taken by one
# instruction; the time of the call comes last, as ever.
#
# entry_arguments is entry_only with arguments.
        .p2align 6
entry_arguments:
        save
        find_thread nothing
        push    %rdi
        push    %r8
        push    %r9
        push    %r10
        mov     %rsp, %rdi
        call    record_arguments
        pop     %r10
        pop     %r9
        pop     %r8
        pop     %rdi
        done

# record_arguments writes the event of a call with its arguments. %rdi is where
# the registers of the caller are:
#
#   %rdi + 0 ... 24    r10, r9, r8, rdi
#   %rdi + 32 ... 56   rsi, rcx, rdx, rax
#   %rdi + 64          return into the stub
#   %rdi + 72          id
#   %rdi + 80          A; above it the arguments that have no register
#
# Changes %rax, %rcx, %rdx, %r8, %r9, %r10.
record_arguments:
        push    %r11
        sub     $BUFFER, %rsp
        mov     %rsp, %r11
        call    capture
        mov     72(%rdi), %r9d
        lea     80(%rdi), %r8
        rdtsc
        shl     $32, %rdx
        or      %rdx, %rax
        call    write_arguments
        add     $BUFFER, %rsp
        pop     %r11
        ret

# write_arguments writes the event of time %rax, id %r9d and A %r8 with the words
# of the buffer %r11. Changes %rcx, %rdx, %r9. There must be room for several
# such: those of signal handlers which come before it.
        .set    ROOM, 512
write_arguments:
        push    %rbx
        push    %r12
        mov     (%r11), %ebx
        and     $63, %ebx
        mov     THREAD_HEAD(%rsi), %rcx
        add     $ROOM, %rcx
        cmp     THREAD_LIMIT(%rsi), %rcx
        jae     4f
1:      lea     1(%rbx), %ecx
        xadd    %rcx, THREAD_HEAD(%rsi)
        mov     %rcx, %r12
        xor     %edx, %edx
2:      cmp     %ebx, %edx
        jae     3f
        inc     %edx
        lea     (%r12,%rdx), %rcx
        and     THREAD_MASK(%rsi), %ecx
        shl     $4, %rcx
        add     THREAD_RING(%rsi), %rcx
        push    %rax
        mov     (%r11,%rdx,8), %rax
        movl    $WORD, 8(%rcx)
        mov     %rax, (%rcx)
        pop     %rax
        jmp     2b
3:      mov     %r12, %rcx
        and     THREAD_MASK(%rsi), %ecx
        shl     $4, %rcx
        add     THREAD_RING(%rsi), %rcx
        shl     $WORDS_SHIFT, %ebx
        and     $(ID | ROOT | NO_EXIT | WHOLE), %r9d
        or      %ebx, %r9d
        mov     %r9d, 8(%rcx)
        mov     %r8d, 12(%rcx)
        mov     %rax, (%rcx)
        jmp     5f
4:      mov     THREAD_MASK(%rsi), %edx
        add     THREAD_TAIL(%rsi), %rdx
        sub     $63, %rdx
        mov     %rdx, THREAD_LIMIT(%rsi)
        jz      5f                      # there are no events in this mode
        cmp     %rdx, %rcx
        jb      1b
        incq    THREAD_LOST(%rsi)
5:      pop     %r12
        pop     %rbx
        ret

# capture writes the arguments that the stub describes to the buffer %r11: the
# number of words u64, then the words. The description is a byte for each, up to
# one of 0: what it is, and in the low half which (from 0 on).
#
#   VALUE    integers and pointers as they are passed, 6 in registers, the others
#            on the stack: a word
#   STRING   the same, and where it points: the pointer, the length in the low
#            half of a word with flags above, and as many words as it takes
#   FLOAT    %xmm0 to %xmm7: the low half
#
# %rdi is as for record_arguments. Changes %rax, %rcx, %rdx, %r8, %r9, %r10.
        .set    VALUE, 0x10
        .set    STRING, 0x20
        .set    FLOAT, 0x30
        .set    STRING_SIZE, 48
        .set    BUFFER, 8 + 8 * 64
        .set    CUT, 32                 # bits: the string is longer
        .set    BAD, 33                 # there is no memory where it goes on
places: .byte   24, 32, 48, 40, 16, 8   # rdi, rsi, rdx, rcx, r8, r9
        .byte   88, 96, 104, 112, 120, 128, 136, 144, 152, 160
        .p2align 4
capture:
        push    %rbx
        push    %r12
        push    %r13
        mov     64(%rdi), %rbx
        mov     30(%rbx), %rbx          # the description: at 40 of the stub
        lea     8(%r11), %r12
1:      movzbl  %bl, %eax
        test    %eax, %eax
        jz      3f
        shr     $8, %rbx
        mov     %eax, %ecx
        and     $15, %ecx
        cmp     $FLOAT, %eax
        jae     2f
        lea     places(%rip), %rdx
        movzbl  (%rdx,%rcx), %ecx
        mov     (%rdi,%rcx), %r13
        mov     %r13, (%r12)
        add     $8, %r12
        cmp     $STRING, %eax
        jb      1b
        call    string
        jmp     1b
2:      lea     floats(%rip), %rdx
        lea     (%rdx,%rcx,8), %rdx
        call    *%rdx
        add     $8, %r12
        jmp     1b
3:      sub     %r11, %r12
        shr     $3, %r12
        dec     %r12
        mov     %r12, (%r11)
        pop     %r13
        pop     %r12
        pop     %rbx
        ret

        .p2align 3
floats: movq    %xmm0, (%r12)
        ret
        .p2align 3
        movq    %xmm1, (%r12)
        ret
        .p2align 3
        movq    %xmm2, (%r12)
        ret
        .p2align 3
        movq    %xmm3, (%r12)
        ret
        .p2align 3
        movq    %xmm4, (%r12)
        ret
        .p2align 3
        movq    %xmm5, (%r12)
        ret
        .p2align 3
        movq    %xmm6, (%r12)
        ret
        .p2align 3
        movq    %xmm7, (%r12)
        ret

# string writes the string at %r13 to %r12, which it moves. What is in the program itself
# can be read. Else the kernel copies it, from this process to itself: a pointer to
# nowhere is an error there, and no signal here. It is asked for the rest of a page and
# the next one apart; and not at all where that is known to be forbidden.
string:
        xor     %edx, %edx
        test    %r13, %r13
        jz      4f
        mov     HEADER(%rip), %rax
        test    %rax, %rax
        jz      4f
        mov     $8, %ecx
        push    %rsi
        lea     READABLE(%rax), %rsi
7:      mov     %r13, %rdx
        sub     (%rsi), %rdx
        cmp     8(%rsi), %rdx
        jb      8f
        add     $16, %rsi
        dec     %ecx
        jnz     7b
        pop     %rsi
        xor     %edx, %edx
        cmpl    $0, UNASKED(%rax)
        jne     4f
        jmp     9f
8:      mov     8(%rsi), %rcx           # from there up to the end
        sub     %rdx, %rcx
        mov     $STRING_SIZE, %eax
        cmp     %rcx, %rax
        cmova   %rcx, %rax
        mov     %rax, %rcx
        push    %rdi
        mov     %r13, %rsi
        lea     8(%r12), %rdi
        rep movsb
        pop     %rdi
        pop     %rsi
        xor     %edx, %edx
        jmp     3f
9:      push    %rdi
        push    %rsi
        push    %r11
        sub     $48, %rsp
        lea     8(%r12), %rax
        mov     %rax, (%rsp)            # to
        movq    $STRING_SIZE, 8(%rsp)
        mov     %r13, 16(%rsp)          # from
        mov     %r13d, %ecx
        and     $4095, %ecx
        mov     $4096, %eax
        sub     %ecx, %eax
        mov     $STRING_SIZE, %ecx
        cmp     %ecx, %eax
        cmova   %ecx, %eax
        mov     %rax, 24(%rsp)
        lea     (%r13,%rax), %rdx       # and from
        mov     %rdx, 32(%rsp)
        sub     %eax, %ecx
        mov     %rcx, 40(%rsp)
        xor     %eax, %eax
        mov     HEADER(%rip), %rdi
        test    %rdi, %rdi
        jz      2f
        mov     THREAD_PID(%rsi), %edi
        mov     %rsp, %rsi
        mov     $1, %edx
        lea     16(%rsp), %r10
        mov     $2, %r8d
        xor     %r9d, %r9d
        mov     $310, %eax              # process_vm_readv
        syscall
2:      add     $48, %rsp
        pop     %r11
        pop     %rsi
        pop     %rdi
        xor     %edx, %edx
        test    %rax, %rax
        jle     4f
3:      cmpb    $0, 8(%r12,%rdx)
        je      5f
        inc     %rdx
        cmp     %rax, %rdx
        jb      3b
        lea     7(%rdx), %rcx
        bts     $CUT, %rdx
        cmp     $STRING_SIZE, %rax
        je      6f
        btr     $CUT, %rdx
4:      bts     $BAD, %rdx
5:      mov     %edx, %ecx
        add     $7, %ecx
6:      and     $-8, %ecx
        mov     %rdx, (%r12)
        lea     8(%r12,%rcx), %r12
        ret

# in_returns tells by the carry whether %rax is an address in a return stub, and sets
# %rdx to the size of all those, then. Changes %rcx.
in_returns:
        push    %rsi
        lea     ranges(%rip), %rsi
        mov     nranges(%rip), %ecx
        test    %ecx, %ecx
        jz      2f                      # there are none
1:      mov     %rax, %rdx
        sub     (%rsi), %rdx
        cmp     8(%rsi), %rdx
        mov     8(%rsi), %rdx
        jb      2f
        add     $16, %rsi
        dec     %ecx
        jnz     1b
        clc
2:      pop     %rsi
        ret

# caller_of sets %rax, if it is an address in a return stub, to where that returns to.
# Changes %rcx, %rdx.
caller_of:
        call    in_returns
        jnc     1f
        and     $-32, %rax
        sub     %rdx, %rax
        mov     RETURN_ADDRESS(%rax), %rax
1:      ret

# With filters each thread has a stack of its open calls, frames of 32 bytes:
# A u64, time u64, id u32, flags u32; from 0x8000 on 512 bytes for the arguments
# of each. What lies at or below the A of a new call
# was left by longjmp or an exception: its exit is written now. In a handler of a signal depth and
# frames are as they were when it returns.
#
# All this is so on one stack. A thread that goes to another one, of a coroutine or of
# signals, records everything from then on: which call is within which is found out by
# who reads that. It goes there if A is far from what is known of the stack, or if a call
# returns that seemed to have been left.
#
# A call that ends by a jump to another site goes on, as its caller's, until that one
# ends, if the next event is the entry there. Else it ended when it jumped.
        .set    NEAR, 0x4000

# on_this_stack goes to \not if A, %r8, is not near the calls of the frames %rdi, of
# which there are %rcx. Changes %rax, %rdx, %r10.
        .macro  on_this_stack not
        mov     %rcx, %rax
        shl     $5, %rax
        mov     -32(%rdi,%rax), %rax
        mov     THREAD_AT(%rsi), %rdx
        cmp     %rdx, %rax
        cmova   %rdx, %rax
        sub     $NEAR, %rax             # from there
        mov     (%rdi), %rdx
        add     $NEAR, %rdx
        sub     %rax, %rdx
        mov     %r8, %r10
        sub     %rax, %r10
        cmp     %rdx, %r10
        ja      \not
        .endm

# settle is settle_jump; it asks first whether there is anything to do.
        .macro  settle
        mov     %rcx, %rdx
        shl     $5, %rdx
        testl   $PENDING, -12(%rdi,%rdx)
        jnz     6f
7:
        .subsection 1
6:      call    settle_jump
        jmp     7b
        .previous
        .endm

        .p2align 6
entry_filtered:
        save
        find_thread plain
        cmpl    $0, THREAD_WHOLE(%rsi)
        jne     entry_whole
        push    %rdi
        push    %r8
        push    %r9
        push    %r10
        lea     80(%rsp), %r8           # A
        mov     HEADER(%rip), %r9
        test    %r9, %r9
        jz      unrecorded
        mov     THREAD_FRAMES(%rsi), %rdi
        mov     THREAD_DEPTH(%rsi), %rcx
        test    %rcx, %rcx
        jz      1f
        on_this_stack other_stack
        settle
1:      mov     %r8, THREAD_AT(%rsi)
        xor     %r10d, %r10d
        cmp     %r10d, nranges(%rip)
        je      4f
        mov     (%r8), %rax
        call    in_returns
        sbb     %r10d, %r10d            # not 0: a tail call, its caller's frame is at A
4:      mov     THREAD_DEPTH(%rsi), %rcx
1:      test    %rcx, %rcx
        jz      2f
        mov     %rcx, %rax
        shl     $5, %rax
        cmp     %r8, -32(%rdi,%rax)
        ja      2f
        jb      3f
        testl   $JUMPED, -12(%rdi,%rax)
        jnz     again
        test    %r10d, %r10d
        jnz     2f
3:      call    left_frame
        dec     %rcx
        jmp     1b
2:
known_callers:
        mov     %rcx, THREAD_DEPTH(%rsi)
        test    %rcx, %rcx
        jnz     4f
        cmpq    $0, ROOTS(%r9)
        je      5f
        testl   $ROOT, 72(%rsp)
        jz      unrecorded
        jmp     5f
4:      mov     %rcx, %rax
        shl     $5, %rax
        testl   $MUTED, -12(%rdi,%rax)
        jnz     unrecorded
5:      cmp     MAX_DEPTH(%r9), %rcx
        jae     unrecorded
        testl   $SITES, 72(%rsp)
        jnz     7f
        testl   $UNSEEN, 72(%rsp)
        jnz     unreturned
        test    %r10d, %r10d
        jnz     unreturned
7:      xor     %r10d, %r10d            # flags of the frame
        test    %rcx, %rcx
        jnz     6f
        cmpq    $1, PERIOD(%r9)
        jbe     6f
        imul    $747796405, THREAD_TURN(%rsi), %eax
        sub     $1403630843, %eax       # at random, or every Nth call might be of one kind
        mov     %eax, THREAD_TURN(%rsi)
        mull    PERIOD(%r9)
        test    %edx, %edx
        jz      6f                      # one of N
        mov     $MUTED, %r10d
6:      mov     %rcx, %rax
        shl     $5, %rax
        add     %rax, %rdi
        mov     %r8, (%rdi)
        inc     %rcx
        mov     %rcx, THREAD_DEPTH(%rsi)
        mov     %r8, (%rdi)             # a handler may just have been here
        mov     72(%rsp), %eax
        and     $~SITES, %eax
        cmp     $1, %rcx
        jbe     1f
        cmp     %r8, -32(%rdi)
        jne     1f
        or      $NO_EXIT, %eax          # within the one that jumped here
1:      mov     %eax, 16(%rdi)
        test    $ARGUMENTS, %eax
        jnz     frame_arguments
captured:
        rdtsc
        shl     $32, %rdx
        or      %rdx, %rax
        mov     %rax, 8(%rdi)
        test    %r10d, %r10d
        jnz     8f
        cmpq    $0, MIN_TIME(%r9)
        jne     8f
        mov     $WRITTEN, %r10d
        mov     %r10d, 20(%rdi)
        mov     16(%rdi), %r9d
        call    write
        jmp     9f
8:      mov     %r10d, 20(%rdi)
9:      testl   $SITES, 72(%rsp)
        jnz     1f
        return_stub exit_filtered, 32
        test    %rdi, %rdi
        jz      unrecorded              # it seems to be left, by what comes next
        mov     %rdi, 72(%rsp)
1:      pop     %r10
        pop     %r9
        pop     %r8
        pop     %rdi
        done
# The arguments are kept with the frame, until it is known whether the call is
# recorded.
frame_arguments:
        test    %r10d, %r10d
        jnz     captured
        push    %r8
        push    %r9
        push    %r10
        push    %r11
        push    %rdi
        buffer_of_frame
        movq    $0, (%r11)              # as long as a handler may see the frame
        rdtsc
        shl     $32, %rdx
        or      %rdx, %rax
        mov     %rax, 8(%rdi)
        mov     %r10d, 20(%rdi)
        lea     40(%rsp), %rdi
        call    capture
        pop     %rdi
        pop     %r11
        pop     %r10
        pop     %r9
        pop     %r8
        jmp     captured
# A tail call, whose end is that of its caller, or a function whose exits are not seen.
unreturned:
        orl     $NO_EXIT, 72(%rsp)
        cmpq    $0, MIN_TIME(%r9)
        jne     unrecorded
        testl   $ARGUMENTS, 72(%rsp)
        jz      1f
        mov     %rsp, %rdi
        call    record_arguments
        jmp     unrecorded
1:
        mov     72(%rsp), %r9d
        rdtsc
        shl     $32, %rdx
        or      %rdx, %rax
        call    write
unrecorded:
        pop     %r10
        pop     %r9
        pop     %r8
        pop     %rdi
        jmp     plain

# A function that comes back to itself by tail calls, maybe through others, begins anew:
# what was before has ended.
again:
        mov     %rcx, %rax
1:      mov     %rax, %rdx
        shl     $5, %rdx
        cmp     %r8, -32(%rdi,%rdx)
        jne     known_callers
        testl   $JUMPED, -12(%rdi,%rdx)
        jz      known_callers
        mov     -16(%rdi,%rdx), %edx
        xor     72(%rsp), %edx
        test    $ID, %edx
        jz      3f
        dec     %rax
        jnz     1b
        jmp     known_callers
3:      push    %rax
        call    ended_frame
        pop     %rax
        dec     %rcx
        cmp     %rax, %rcx
        jae     3b
        jmp     known_callers

# On another stack.
other_stack:
        call    record_whole
        pop     %r10
        pop     %r9
        pop     %r8
        pop     %rdi
entry_whole:
        mov     40(%rsp), %eax
        orl     $WHOLE, 40(%rsp)
        test    $ARGUMENTS, %eax
        jnz     1f
        test    $(SITES | UNSEEN), %eax
        jnz     2f
        push    %rdi
        push    %r8
        return_stub exit_filtered, 16
        jmp     entry_found
2:      record  40(%rsp), 48(%rsp)
        jmp     plain
1:      push    %rdi
        push    %r8
        push    %r9
        push    %r10
        test    $(SITES | UNSEEN), %eax
        jnz     4f
        return_stub exit_filtered, 32
        test    %rdi, %rdi
        jnz     3f
        orl     $NO_EXIT, 72(%rsp)
        jmp     4f
3:      push    %rdi
        lea     8(%rsp), %rdi
        call    record_arguments
        pop     %rdi
        mov     %rdi, 72(%rsp)
        pop     %r10
        pop     %r9
        pop     %r8
        pop     %rdi
        done
4:      mov     %rsp, %rdi
        call    record_arguments
        jmp     unrecorded

# record_whole has the thread record everything from here on. The calls that are open
# and not written come first. Changes %rax, %rcx, %rdx, %rdi, %r8, %r9.
record_whole:
        mov     THREAD_FRAMES(%rsi), %rdi
        mov     THREAD_DEPTH(%rsi), %rcx
1:      test    %rcx, %rcx
        jz      3f
        testl   $(WRITTEN | MUTED), 20(%rdi)
        jnz     2f
        orl     $WRITTEN, 20(%rdi)
        mov     8(%rdi), %rax
        mov     16(%rdi), %r9d
        or      $WHOLE, %r9d
        mov     (%rdi), %r8
        push    %rcx
        call    write
        pop     %rcx
2:      add     $32, %rdi
        dec     %rcx
        jmp     1b
3:      movl    $1, THREAD_WHOLE(%rsi)
        ret

# left_frame ends the innermost frame, of number %rcx, which was left; ended_frame one
# that has ended. Change %rax, %rdx.
left_frame:
        push    %rdi
        push    %r8
        mov     $NO_EXIT, %r8d
        jmp     1f
ended_frame:
        push    %rdi
        push    %r8
        xor     %r8d, %r8d
1:      push    %r9
        push    %r10
        rdtsc
        shl     $32, %rdx
        or      %rdx, %rax
        call    end_frame
        pop     %r10
        pop     %r9
        pop     %r8
        pop     %rdi
        ret

# end_frame ends the innermost frame, of number %rcx, at time %rax: the exit is written,
# with the flag %r8d, if the entry is, or both if it took long enough. Changes %rdx,
# %rdi, %r8, %r9, %r10.
end_frame:
        mov     THREAD_FRAMES(%rsi), %rdi
        mov     %rcx, %r10
        shl     $5, %r10
        lea     -32(%rdi,%r10), %r10
        testl   $MUTED, 20(%r10)
        jnz     4f
        testl   $WRITTEN, 20(%r10)
        jnz     3f
        mov     HEADER(%rip), %rdx
        test    %rdx, %rdx
        jz      4f
        mov     %rax, %r9
        sub     8(%r10), %r9
        cmp     MIN_TIME(%rdx), %r9
        jb      4f
        push    %rax                    # long enough: those above come first
        push    %r8
        push    %rcx
1:      testl   $(WRITTEN | MUTED), 20(%rdi)
        jnz     2f
        orl     $WRITTEN, 20(%rdi)
        mov     8(%rdi), %rax
        mov     16(%rdi), %r9d
        mov     (%rdi), %r8
        call    write
2:      add     $32, %rdi
        cmp     %r10, %rdi
        jbe     1b
        pop     %rcx
        pop     %r8
        pop     %rax
3:      mov     16(%r10), %r9d
        and     $~NO_EXIT, %r9d
        or      $EXIT, %r9d
        or      %r8d, %r9d
        mov     (%r10), %r8
        push    %rcx
        call    write
        pop     %rcx
4:      andl    $~(JUMPED | PENDING), 20(%r10)
        ret

# leave ends the call whose return address is at %r8, of the stub's id %r9d, and those
# within, which have been left. %eax: 0 if it has no frame. Changes %rcx, %rdx, %rdi,
# %r8, %r9, %r10.
leave:
        mov     THREAD_FRAMES(%rsi), %rdi
        mov     THREAD_DEPTH(%rsi), %rcx
        test    %rcx, %rcx
        jz      5f
        on_this_stack 4f
        mov     %r8, THREAD_AT(%rsi)
        settle
1:      test    %rcx, %rcx
        jz      5f
        mov     %rcx, %rax
        shl     $5, %rax
        cmp     %r8, -32(%rdi,%rax)
        ja      5f
        je      2f
        call    left_frame
        dec     %rcx
        jmp     1b
2:      lea     -32(%rdi,%rax), %r10
        mov     16(%r10), %eax
        xor     %r9d, %eax
        test    $ID, %eax
        jnz     6f                      # of a call that was not recorded; this one jumped to it
        rdtsc
        shl     $32, %rdx
        or      %rdx, %rax
        test    $JUMP, %r9d
        jnz     7f
        push    %r8
        xor     %r8d, %r8d
        call    end_frame
        pop     %r8
        dec     %rcx
        call    end_jumped
        mov     %rcx, THREAD_DEPTH(%rsi)
        mov     $1, %eax
        ret
6:      testl   $JUMPED, 20(%r10)
        jz      5f
        rdtsc
        shl     $32, %rdx
        or      %rdx, %rax
        test    $JUMP, %r9d
        jnz     7f                      # and goes on to jump
        call    end_jumped
        jmp     5f
7:      mov     %rax, 24(%r10)
        orl     $(JUMPED | PENDING), 20(%r10)
        mov     %rcx, THREAD_DEPTH(%rsi)
        mov     $1, %eax
        ret
4:      call    record_whole
        xor     %eax, %eax
        ret
5:      mov     %rcx, THREAD_DEPTH(%rsi)
        xor     %eax, %eax
        ret

# settle_jump ends the innermost frame, of number %rcx, which has ended by a jump (PENDING), if
# what comes next, at %r8, is not what it jumped to; and those that had jumped there.
# Changes %rax, %rcx, %rdx, %r10.
settle_jump:
        mov     %rcx, %rdx
        shl     $5, %rdx
        lea     -32(%rdi,%rdx), %r10
        andl    $~PENDING, 20(%r10)
        cmp     %r8, (%r10)
        je      1f
        push    %r8
        mov     24(%r10), %rax
        mov     (%r10), %r8
        call    end_jumped
        pop     %r8
        mov     %rcx, THREAD_DEPTH(%rsi)
1:      ret

# end_jumped ends at time %rax what has ended by a jump at %r8, of the innermost frames,
# of which there are %rcx. Changes %rcx, %rdx, %r10.
end_jumped:
        push    %rdi
        push    %r9
        mov     THREAD_FRAMES(%rsi), %rdi
1:      test    %rcx, %rcx
        jz      2f
        mov     %rcx, %rdx
        shl     $5, %rdx
        testl   $JUMPED, -12(%rdi,%rdx)
        jz      2f
        cmp     %r8, -32(%rdi,%rdx)
        jne     2f
        push    %rdi
        push    %r8
        xor     %r8d, %r8d
        call    end_frame
        pop     %r8
        pop     %rdi
        dec     %rcx
        jmp     1b
2:      pop     %r9
        pop     %rdi
        ret

# usual_leave ends the innermost call, if it is the one that ends and is as nearly all are:
# it is written, or it was shorter than is to be recorded; nobody jumped there. It goes to
# nothing then. Changes %rax, %rcx, %rdx.
        .macro  usual_leave
        push    %rdi
        mov     THREAD_DEPTH(%rsi), %rcx
        mov     THREAD_FRAMES(%rsi), %rdi
        test    %rcx, %rcx
        jz      9f
        mov     %rcx, %rdx
        shl     $5, %rdx
        add     %rdx, %rdi              # behind the innermost frame
        lea     56(%rsp), %rdx          # A
        cmp     %rdx, -32(%rdi)
        jne     9f
        mov     48(%rsp), %eax
        xor     -16(%rdi), %eax
        test    $(ID | JUMP), %eax
        jnz     9f
        dec     %rcx
        jz      6f
        testl   $JUMPED, -44(%rdi)
        jnz     9f
6:      mov     %rdx, THREAD_AT(%rsi)
        cmpl    $WRITTEN, -12(%rdi)
        jne     8f
        mov     -16(%rdi), %edi
        and     $~NO_EXIT, %edi
        record  %edi, 56(%rsp), EXIT
7:      decq    THREAD_DEPTH(%rsi)
        pop     %rdi
        done
8:      cmpl    $0, -12(%rdi)
        jne     9f
        mov     HEADER(%rip), %rcx
        test    %rcx, %rcx
        jz      9f
        rdtsc
        shl     $32, %rdx
        or      %rdx, %rax
        sub     -24(%rdi), %rax
        cmp     MIN_TIME(%rcx), %rax
        jb      7b
9:      pop     %rdi
        .endm

        .p2align 6
exit_filtered:
        save
        find_thread nothing
        cmpl    $0, THREAD_WHOLE(%rsi)
        jne     exit_only_found
        usual_leave
        push    %rdi
        push    %r8
        push    %r9
        push    %r10
        mov     72(%rsp), %r9d
        lea     80(%rsp), %r8           # A
        call    leave
        test    %eax, %eax
        jnz     1f
        call    record_whole            # it seemed to have been left
1:      pop     %r10
        pop     %r9
        pop     %r8
        pop     %rdi
        done

        .p2align 6
exit_filtered_only:
        save
        find_thread nothing
        cmpl    $0, THREAD_WHOLE(%rsi)
        jne     exit_only_found
        usual_leave
        push    %rdi
        push    %r8
        push    %r9
        push    %r10
        mov     72(%rsp), %r9d
        lea     80(%rsp), %r8           # A
        call    leave
        pop     %r10
        pop     %r9
        pop     %r8
        pop     %rdi
        done

# chain counts the chain of return addresses. The ring's memory is a hash table
# of chains: count u64, number of addresses u32 (0: free, -1: being written),
# u32, addresses u64. Rows are {address u64, rule u64} by ascending address, the
# rule of a row goes up to the next; one of 0 ends the chain:
#
#   bits 0-31    CFA, the stack pointer before the call, less %rsp or %rbp
#   bits 32-47   where the caller's %rbp is, less the CFA; 0: in %rbp
#   bit 48       from %rbp
#   bit 49       set; else nothing describes the code, and
#   bit 0        there may be a frame pointer
#   bit 1        there is none: by traced callers. Without bit 0 the function itself
#                is one, and bits 8-39 are its stub's id
#
# The cache has the number of the row for a hash of the address, or another.
        .set    MAX_CALLERS, 32768      # frames of 32 bytes

# return_address sets %rax to that below the CFA %r8; changes %rcx, %rdx. If it leads
# into a return stub, it is that of a traced call, which may have made a tail call.
        .macro  return_address
        mov     -8(%r8), %rax
        cmpl    $0, nranges(%rip)
        jne     3f
2:
        .subsection 1
3:      call    caller_of
        jmp     2b
        .previous
        .endm

# append adds %rax to the chain.
        .macro  append
        mov     %rax, (%rsp,%r10,8)
        inc     %r10d
        xor     %rax, %r12
        imul    %r13, %r12
        .endm

        .p2align 6
chain:
        save
        find_thread chain_left
        push    %rdi
        push    %r8
        push    %r9
        push    %r10
        push    %r11
        push    %rbx
        push    %r12
        push    %r13
        sub     $256, %rsp              # addresses
        lea     48 + 64 + 256(%rsp), %r8
        mov     HEADER(%rip), %rdi
        test    %rdi, %rdi
        jz      chain_done
        incq    THREAD_HEAD(%rsi)
        mov     %rbp, %r9
        add     $8, %r8                 # the CFA
        return_address
        mov     %rax, (%rsp)
        mov     $1, %r10d               # addresses so far
        mov     $0x9E3779B97F4A7C15, %r13
        mov     %rax, %r12              # hash
        imul    %r13, %r12
next_caller:
        cmp     CHAIN_DEPTH(%rdi), %r10d
        jae     chain_count
        dec     %rax                    # the call, not what follows
        mov     ROWS(%rdi), %rbx
        mov     CACHE(%rdi), %r11
        mov     %rax, %rdx
        imul    %r13, %rdx
        shr     $50, %rdx
        mov     (%r11,%rdx,4), %ecx
        shl     $4, %rcx
        cmp     (%rbx,%rcx), %rax
        jb      find_row
        cmp     16(%rbx,%rcx), %rax
        jae     find_row
row_found:
        mov     8(%rbx,%rcx), %rdx
        bt      $49, %rdx
        jnc     undescribed
        movslq  %edx, %rcx
        bt      $48, %rdx
        jc      3f
        add     %r8, %rcx
        jmp     4f
3:      add     %r9, %rcx
4:      mov     %rcx, %rbx              # the stack grows by a positive, small number
        sub     %r8, %rbx
        jbe     chain_count
        cmp     $0x1000000, %rbx
        ja      chain_count
        mov     %rcx, %r8
        shr     $32, %rdx
        movswq  %dx, %rdx
        test    %rdx, %rdx
        jz      follow
        mov     (%r8,%rdx), %r9
follow: return_address
        test    %rax, %rax
        jz      chain_count
        append
        jmp     next_caller

# Without a description the traced callers tell where the function was called, if
# it is one of them. If it is not, but has no frame pointer either, the chain goes
# on with the nearest of them, which is added first as it was not called from
# there. Calls that began before they were traced end the chain: if they are in a
# function, all that are further away are older.
undescribed:
        test    $2, %edx
        jz      by_pointer
        mov     THREAD_DEPTH(%rsi), %rcx
        cmp     $MAX_CALLERS, %rcx
        jae     chain_count
        mov     THREAD_FRAMES(%rsi), %rbx
        shl     $5, %rcx
        add     %rbx, %rcx
2:      cmp     %rbx, %rcx
        je      4f
        sub     $32, %rcx
        mov     (%rcx), %r11
        sub     %r8, %r11
        jb      2b
        cmp     $0x1000000, %r11
        ja      4f                      # of another stack
        test    $1, %edx
        jnz     3f
        mov     %rdx, %r11
        shr     $8, %r11
        cmp     %r11d, 16(%rcx)
        jne     2b                      # left by longjmp
        jmp     5f
3:      mov     24(%rcx), %rax
        append
        cmp     CHAIN_DEPTH(%rdi), %r10d
        jae     chain_count
5:      incq    THREAD_TRACED(%rsi)
        mov     (%rcx), %r8
        mov     8(%rcx), %r9
        mov     (%r8), %rax
        call    caller_of
        add     $8, %r8
        append
        jmp     next_caller
4:      test    $1, %edx
        jz      chain_count

# Without a description a frame pointer is tried, if it points into the thread's
# stack, above what is known to be on it. One that is none may skip callers, but
# does no harm.
by_pointer:
        test    $1, %edx
        jz      chain_count
        mov     THREAD_TOP(%rsi), %rcx
        test    %rcx, %rcx
        jz      6f
        sub     $16, %rcx
        cmp     THREAD_LOW(%rsi), %r8
        jb      6f
        cmp     %rcx, %r8
        ja      6f
        cmp     %r8, %r9
        jb      chain_count
        cmp     %rcx, %r9
        ja      chain_count
        test    $7, %r9b
        jnz     chain_count
        incq    THREAD_POINTERS(%rsi)
        lea     16(%r9), %r8
        mov     (%r9), %r9
        jmp     follow
6:      mov     %r8, THREAD_ASKS(%rsi)
        jmp     chain_count

find_row:                               # of %rax in %rbx; the cache's place is %r11 + 4 rdx
        push    %rdx
        push    %rsi
        xor     %ecx, %ecx              # rows[rcx] <= rax < rows[rsi]
        mov     ROW_COUNT(%rdi), %rsi
1:      lea     (%rcx,%rsi), %rdx
        shr     $1, %rdx
        cmp     %rcx, %rdx
        je      3f
        push    %rdx
        shl     $4, %rdx
        cmp     (%rbx,%rdx), %rax
        pop     %rdx
        jb      2f
        mov     %rdx, %rcx
        jmp     1b
2:      mov     %rdx, %rsi
        jmp     1b
3:      pop     %rsi
        pop     %rdx
        mov     %ecx, (%r11,%rdx,4)
        shl     $4, %rcx
        jmp     row_found

chain_count:
        shr     $20, %r12
        mov     CHAIN_SHIFT(%rdi), %ecx
        mov     THREAD_MASK(%rsi), %ebx
        inc     %rbx
        shl     $4, %rbx                # bytes of the table
        shr     %cl, %rbx
        dec     %rbx
        mov     $32, %r13d              # tries
        mov     THREAD_RING(%rsi), %r11
1:      and     %rbx, %r12
        mov     %r12, %rdx
        shl     %cl, %rdx
        add     %r11, %rdx
        mov     8(%rdx), %eax
        cmp     %r10d, %eax
        jne     3f
        mov     %r10d, %r8d
2:      mov     -8(%rsp,%r8,8), %r9
        cmp     8(%rdx,%r8,8), %r9
        jne     4f
        dec     %r8d
        jnz     2b
        incq    (%rdx)
        jmp     chain_done
3:      test    %eax, %eax
        jnz     4f
        mov     $-1, %r9d
        cmpxchg %r9d, 8(%rdx)           # against handlers of this thread only
        jne     4f
        movq    $1, (%rdx)
        mov     %r10d, %r8d
5:      mov     -8(%rsp,%r8,8), %r9
        mov     %r9, 8(%rdx,%r8,8)
        dec     %r8d
        jnz     5b
        mov     %r10d, 8(%rdx)
        jmp     chain_done
4:      inc     %r12
        dec     %r13d
        jnz     1b
        incq    THREAD_LOST(%rsi)
chain_done:
        add     $256, %rsp
        pop     %r13
        pop     %r12
        pop     %rbx
        pop     %r11
        pop     %r10
        pop     %r9
        pop     %r8
        pop     %rdi
chain_left:
        testl   $ROOT, 40(%rsp)
        jnz     1f
        done
1:      pop     %rsi
        pop     %rcx
        pop     %rdx
        pop     %rax

# entry_caller notes a call in the thread's frames: A u64, %rbp u64, id u32, u32,
# where the function begins behind its site u64. exit_caller forgets it. What lies
# below the A of a new call was left by longjmp; at A is one whose tail call this
# is: its frame becomes that of the new one.
entry_caller:
        save
        find_thread plain
        push    %rdi
        push    %r8
        push    %r9
        push    %r10
        lea     80(%rsp), %r8           # A
        mov     72(%rsp), %r9d
        mov     64(%rsp), %r10          # into the stub, at 10
        test    $SITES, %r9d
        jnz     1f
        movslq  25(%r10), %rax          # of its jump to the function
        lea     29(%r10,%rax), %r10
        jmp     2f
1:      movslq  6(%r10), %rax
        lea     10(%r10,%rax), %r10
2:      and     $ID, %r9d
        xor     %eax, %eax
        cmp     %eax, nranges(%rip)
        je      3f
        mov     (%r8), %rax
        call    in_returns
        sbb     %eax, %eax              # not 0: a tail call
3:
        mov     THREAD_FRAMES(%rsi), %rdi
        mov     THREAD_DEPTH(%rsi), %rcx
1:      test    %rcx, %rcx
        jz      3f
        mov     %rcx, %rdx
        shl     $5, %rdx
        cmp     %r8, -32(%rdi,%rdx)
        ja      3f
        jb      2f
        test    %eax, %eax
        jnz     5f
2:      dec     %rcx
        jmp     1b
3:      mov     %rcx, THREAD_DEPTH(%rsi)
        test    %eax, %eax
        jnz     unrecorded
        cmp     $MAX_CALLERS, %rcx
        jae     unrecorded
        mov     %rcx, %rdx
        shl     $5, %rdx
        add     %rdx, %rdi
        inc     %rcx
4:      mov     %r8, (%rdi)
        mov     %rbp, 8(%rdi)
        mov     %r9d, 16(%rdi)
        mov     %r10, 24(%rdi)
        mov     %rcx, THREAD_DEPTH(%rsi)
        cmp     %r8, (%rdi)
        jne     4b                      # a signal handler was here
        testl   $SITES, 72(%rsp)
        jnz     7f
        return_stub exit_caller, 32
        test    %rdi, %rdi
        jz      6f
        mov     %rdi, 72(%rsp)
7:      pop     %r10
        pop     %r9
        pop     %r8
        pop     %rdi
        done
6:      decq    THREAD_DEPTH(%rsi)      # nothing would tell when it ends
        jmp     unrecorded
5:      mov     %rcx, THREAD_DEPTH(%rsi)
        mov     %r9d, -16(%rdi,%rdx)
        mov     %r10, -8(%rdi,%rdx)
        jmp     unrecorded

        .p2align 4
exit_caller:
        save
        find_thread nothing
        push    %rdi
        lea     56(%rsp), %rax          # A
        mov     THREAD_FRAMES(%rsi), %rdi
        mov     THREAD_DEPTH(%rsi), %rcx
1:      test    %rcx, %rcx
        jz      2f
        mov     %rcx, %rdx
        shl     $5, %rdx
        cmp     %rax, -32(%rdi,%rdx)
        ja      2f
        dec     %rcx
        jmp     1b
2:      mov     %rcx, THREAD_DEPTH(%rsi)
        pop     %rdi
        done

# notice is called by the function that the dynamic linker calls before and after
# its list of libraries changes. Afterwards it tells footfall, and waits until that
# has looked, before the linker goes on to constructors: with a limit, and not again
# until footfall has answered once more, so that a footfall that was stopped or killed
# does no harm. Children made by fork have another id than PID.
        .set    CONSISTENT, 0           # RT_CONSISTENT of <link.h>
        .set    EXTENSIONS, 3
        .set    SYS_futex, 202
        .set    SYS_clock_gettime, 228
        .set    CLOCK_MONOTONIC, 1
        .set    FUTEX_WAKE, 1
        .set    FUTEX_WAIT_BITSET, 9    # with a time, not a duration
        .set    EINTR, 4
        .set    EAGAIN, 11
        .p2align 4
notice:
        save
        push    %rdi
        push    %r8
        push    %r9
        push    %r10
        push    %r11
        push    %rbx
        push    %r12
        push    %r13
        push    %r14
        sub     $16, %rsp               # struct timespec
        mov     HEADER(%rip), %rbx
        test    %rbx, %rbx
        jz      9f
        mov     STATE(%rbx), %rax
        cmpl    $CONSISTENT, (%rax)
        jne     9f
        mov     PROCESS(%rip), %eax
        cmp     PID(%rbx), %eax
        jne     9f
        mov     $1, %r12d               # the number of this notice
        lock xadd %r12d, NOTICES(%rbx)
        inc     %r12d
        lea     NOTICES(%rbx), %rdi
        mov     $FUTEX_WAKE, %esi
        mov     $0x7fffffff, %edx
        mov     $SYS_futex, %eax
        syscall
        cmpl    $0, ANSWERING(%rbx)
        je      8f
        mov     $SYS_clock_gettime, %eax
        mov     $CLOCK_MONOTONIC, %edi
        mov     %rsp, %rsi
        syscall
        test    %rax, %rax
        jnz     8f
        mov     $EXTENSIONS, %r13d
1:      mov     BEAT(%rbx), %r14d
        mov     8(%rsp), %rax
        add     PATIENCE(%rbx), %rax
2:      cmp     $1000000000, %rax
        jb      3f
        sub     $1000000000, %rax
        incq    (%rsp)
        jmp     2b
3:      mov     %rax, 8(%rsp)
4:      mov     ANSWERED(%rbx), %edx
        mov     %edx, %eax
        sub     %r12d, %eax
        jns     9f
        lea     ANSWERED(%rbx), %rdi
        mov     $FUTEX_WAIT_BITSET, %esi
        mov     %rsp, %r10
        xor     %r8d, %r8d
        mov     $-1, %r9d
        mov     $SYS_futex, %eax
        syscall
        test    %rax, %rax
        jz      4b
        cmp     $-EINTR, %rax
        je      4b
        cmp     $-EAGAIN, %rax
        je      4b
        dec     %r13d                   # ETIMEDOUT
        jz      8f
        cmp     BEAT(%rbx), %r14d
        jne     1b
8:      movl    $0, ANSWERING(%rbx)
        lock incl UNANSWERED(%rbx)
9:      add     $16, %rsp
        pop     %r14
        pop     %r13
        pop     %r12
        pop     %rbx
        pop     %r11
        pop     %r10
        pop     %r9
        pop     %r8
        pop     %rdi
        done
notice_end:
end:
