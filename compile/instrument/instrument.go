// Package instrument makes programs count their calls: it rewrites the
// assembly that GCC and Clang make, provides the runtime that is linked in, and
// reads the counts file which that runtime writes.
//
// It does not measure time, run compilers or show profiles.
//
// # What is inserted
//
// A function counts at its entry, a direct call or tail call just before it, by
// one increment of a 64-bit counter of its own. Nothing but the flags changes,
// which are dead at both places: callers may keep values in any register when
// they know the callee (GCC's -fipa-ra), so even a scratch register is not free
// there.
//
//	f:                                   f:
//	    .cfi_startproc                       .cfi_startproc
//	    subq $8, %rsp          becomes       incq .Lfc(%rip)
//	    call g@PLT                           subq $8, %rsp
//	                                         incq .Lfc+8(%rip)
//	                                         call g@PLT
//
// An indirect call has a site of nine words: four pairs of target and count,
// and the count of calls that found no room; on amd64 further targets have pairs
// in a table of the file. The first pair is compared inline; the rest is done by a
// function that saves what it uses and is in every object
// that needs it. So rewritten assembly needs no library to link and to run.
//
//	call *%rax                           cmpq .Lfc+16(%rip), %rax
//	                                     jne .Lfm1
//	                       becomes       incq .Lfc+24(%rip)
//	                                 .Lfs1:
//	                                     call *%rax
//
// On amd64 the increment is leaq .Lfc(%rip), %r11 and incq (%r11) where it waits for the last
// one (waits.go), in functions that leave r11 free (registers.go). With [Split] the increments are, in such functions,
//
//	movq .Lfc(%rip), %r11
//	leaq 1(%r11), %r11
//	movq %r11, .Lfc(%rip)
//
// With [Thread] the increments are incq %gs:.Lfc(%rip): the base of gs leads to
// the thread's own copy of the counters, but not of the targets. With [Locked] they
// are lock incq .Lfc(%rip), which [Unlock] makes the same.
//
// At the end of the file come the counters, the names, and a table of the
// functions and their calls (table.go), in sections of their own. What is left
// out is said in the [RewriteReport]: inline assembly, naked functions, calls through
// a jump that could as well be a switch.
package instrument

import (
	"errors"
	"fmt"
)

// A ProfileUpdate is the way in which counters are incremented, as in -fprofile-update.
type ProfileUpdate uint8

const (
	// Plain increments cost next to nothing. Threads that count at the same
	// time may lose some.
	Plain ProfileUpdate = iota
	// Atomic increments are exact, and slow where a function does little else.
	Atomic
	// Thread increments are of a copy of the counters that each thread has: exact
	// and cheap. They are for executables on amd64; for other CPUs Thread is Atomic.
	Thread
	// Split increments are a load, an addition and a store, which amd64 processors
	// do faster than Plain ones where a function does little else. What counts
	// the same in between, a signal handler or another thread, is lost. They are for functions that
	// leave r11 free; others, and other CPUs, have Plain ones.
	Split
	// Locked increments are Atomic until [Unlock] makes them those of Thread, in a program for amd64, or
	// of Single; they stay so in a library. ParseUpdate does not know it.
	Locked
	// Single increments are Plain ones in a program for 386 that has one thread. ParseUpdate does not
	// know it.
	Single
)

var updateNames = []string{Plain: "plain", Atomic: "atomic", Thread: "thread", Split: "split", Locked: "locked", Single: "single"}

func (u ProfileUpdate) String() string {
	if int(u) < len(updateNames) {
		return updateNames[u]
	}
	return fmt.Sprintf("update mode %d", uint8(u))
}

// outOfLine returns the mode where no register is free.
func (u ProfileUpdate) outOfLine() ProfileUpdate {
	if u == Split {
		return Plain
	}
	return u
}

// ParseUpdate is the inverse of String.
func ParseUpdate(name string) (ProfileUpdate, error) {
	for u, s := range updateNames[:Locked] {
		if s == name {
			return ProfileUpdate(u), nil
		}
	}
	return 0, fmt.Errorf("%q is no way to update counters: try plain, split, thread or atomic", name)
}

// Options say how to rewrite.
type Options struct {
	CPU    string // "amd64", "386" or "arm64"; "" is what the assembly looks like
	Update ProfileUpdate
	// Unit returns the name for a source that the compiler recorded by another,
	// nil keeps that.
	Unit func(recorded string) string
	// Select tells whether to count a function of a unit, by its symbol; nil counts
	// all. Calls are counted where their caller is.
	Select func(unit, function string) bool
	// KeepR11 leaves amd64's r11 alone, which increments take where the assembly does not show
	// that it has another role.
	KeepR11 bool
	// Strip leaves out comments of instructions, which take the assembler's time.
	Strip bool
}

// A RewriteReport tells what was done.
type RewriteReport struct {
	CPU       string
	Unit      string // the source's name, as the compiler recorded it
	Functions int    // that count their entries
	Calls     int    // direct calls and tail calls that count
	Indirect  int    // indirect calls that count their targets
	Problems  []SkippedPlace
}

// A SkippedPlace is a place that was left as it is.
type SkippedPlace struct {
	Line int // 1 is the first
	Msg  string
}

func (p SkippedPlace) String() string { return fmt.Sprintf("line %d: %s", p.Line, p.Msg) }

// ErrForeign is the error for assembly that does not look like a compiler's:
// nothing is known of the registers that its code leaves alone.
var ErrForeign = errors.New("not assembly that GCC or Clang made from source; left as it is")

// ErrInstrumented is the error for assembly that counts already.
var ErrInstrumented = errors.New("this assembly has been instrumented before")
