//go:build linux

package record

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"footfall/hook/ftrace"
	"footfall/output"
	"footfall/trace"
)

// countKernel is footfall callers kernel.
func (o *CallersOptions) countKernel(function string) (err error) {
	globs, err := kernelGlobs([]string{function})
	if err != nil {
		return err
	}
	ctx, cancel := untilSignal()
	defer cancel()
	begin := time.Now()
	k, err := openKernel(trace.Chains, ftrace.Options{Functions: globs, Stacks: true, BufferSize: o.Buffer << 20}, nil, 0)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Stderr, "footfall: kernel: counting; switching on took %v\n", time.Since(begin).Round(time.Millisecond))
	defer func() { err = errors.Join(err, k.Close()) }()
	k.chains = newKernelChains(o.Depth)
	c := o.newCallers(function[strings.Index(function, ":")+1:])
	c.symbols = k.symbols
	read := func() (err error) {
		c.chains, err = k.Chains()
		return err
	}
	if err := o.wait(ctx, c, k.Maintain, read); err != nil {
		return err
	}
	if err := errors.Join(k.Stop(), c.finish(read)); err != nil {
		return err
	}
	if lost := k.Lost()[dropped]; lost > 0 {
		fmt.Fprintf(o.Stderr, "footfall: up to %s missing: they came faster than they could be read; use a larger --buffer\n", output.Count(int(lost), "call is", "calls are"))
	}
	c.sayLost(losses{}, o.Stderr)
	return o.write(c)
}
