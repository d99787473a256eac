//go:build linux

package record

import (
	"cmp"
	"encoding/binary"
	"slices"

	"footfall/hook/ftrace"
	"footfall/trace"
)

// kernelChains counts chains of callers in the kernel.
type kernelChains struct {
	depth   int
	pending map[int][]ftrace.KernelEvent // by CPU: calls whose stack has not come yet
	counts  map[string]uint64            // by the addresses of a chain
}

func newKernelChains(depth int) *kernelChains {
	return &kernelChains{depth: depth, pending: make(map[int][]ftrace.KernelEvent), counts: make(map[string]uint64)}
}

// mostPending calls on a CPU interrupt each other.
const mostPending = 16

// readChains takes what events there are: an entry, then the stack there. Between the
// two may be those of an interrupt.
func (k *kernel) readChains() error {
	events, err := k.session.Read(k.stopped)
	if err != nil {
		return err
	}
	for _, e := range events {
		pending := k.chains.pending[e.CPU]
		switch {
		case e.Kind == ftrace.Entry:
			if len(pending) == mostPending {
				pending = pending[1:]
			}
			pending = append(pending, e)
		case e.Kind == ftrace.Stack && len(pending) > 0:
			k.countChain(pending[len(pending)-1], e.Stack)
			pending = pending[:len(pending)-1]
		}
		k.chains.pending[e.CPU] = pending
	}
	return nil
}

// countChain counts the chain of a call. The stack begins in the tracer, or at the
// function itself.
func (k *kernel) countChain(e ftrace.KernelEvent, stack []uint64) {
	function := k.symbols.At(e.Func)
	for i, addr := range stack {
		if i < 8 && k.symbols.At(addr) == function {
			stack = stack[i+1:]
			break
		}
	}
	if e.Parent != 0 && (len(stack) == 0 || k.symbols.At(stack[0]) != k.symbols.At(e.Parent)) {
		stack = append([]uint64{e.Parent}, stack...)
	}
	var key []byte
	for _, addr := range stack[:min(len(stack), k.chains.depth)] {
		key = binary.LittleEndian.AppendUint64(key, addr)
	}
	k.chains.counts[string(key)]++
}

func (k *kernel) Chains() ([]trace.Chain, error) {
	if err := k.readChains(); err != nil {
		return nil, err
	}
	var chains []trace.Chain
	for key, n := range k.chains.counts {
		chain := trace.Chain{Count: n}
		for b := []byte(key); len(b) > 0; b = b[8:] {
			chain.Addresses = append(chain.Addresses, binary.LittleEndian.Uint64(b))
		}
		chains = append(chains, chain)
	}
	sortChains(chains)
	return chains, nil
}

// sortChains sorts chains, the most frequent first.
func sortChains(chains []trace.Chain) {
	slices.SortFunc(chains, func(a, b trace.Chain) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), slices.Compare(a.Addresses, b.Addresses))
	})
}
