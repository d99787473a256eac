//go:build linux

package record

import (
	"fmt"
	"slices"

	"footfall/hook/patch"
	"footfall/process/target"
	"footfall/trace"
)

// Where a library was, another one may be loaded. So when it has been unloaded, the
// chains that lead through it are taken out of what is counted. Each address in it has a
// number then, in place of the address.

// An unloaded is what is known of libraries that have been unloaded.
type unloaded struct {
	sites   *sites
	taken   map[string]uint64 // how much of the chains with these addresses
	chains  map[string]*trace.Chain
	numbers map[codeIn]uint64
	code    map[uint64]codeIn // by number
	way     patch.ChainWay
}

// A codeIn is an address in a library, while that was loaded.
type codeIn struct {
	image   *target.Image
	address uint64
}

// firstNumber is no address of a program.
const firstNumber = 1 << 63

func newUnloaded(s *sites) *unloaded {
	return &unloaded{
		sites: s, taken: make(map[string]uint64), chains: make(map[string]*trace.Chain),
		numbers: make(map[codeIn]uint64), code: make(map[uint64]codeIn),
	}
}

// take takes the chains through images that have been unloaded. It must be called before
// others can be in their place.
func (u *unloaded) take(gone []*target.Image) {
	for _, chain := range u.sites.session.Chains() {
		numbered := chain.Addresses
		for i, address := range chain.Addresses {
			for _, image := range gone {
				if image.Contains(address - 1) {
					if &numbered[0] == &chain.Addresses[0] {
						numbered = slices.Clone(numbered)
					}
					numbered[i] = u.number(codeIn{image, address})
				}
			}
		}
		if &numbered[0] != &chain.Addresses[0] {
			u.way = bothWays(u.way, u.sites.chainWay([]trace.Chain{chain}))
			u.add(numbered, u.rest(chain))
		}
	}
}

func (u *unloaded) number(in codeIn) uint64 {
	if n, ok := u.numbers[in]; ok {
		return n
	}
	n := firstNumber + uint64(len(u.numbers))
	u.numbers[in], u.code[n] = n, in
	return n
}

func (u *unloaded) add(addresses []uint64, count uint64) {
	key := fmt.Sprint(addresses)
	if u.chains[key] == nil {
		u.chains[key] = &trace.Chain{Addresses: addresses}
	}
	u.chains[key].Count += count
}

// rest takes what has been counted of a chain since it was taken the last time.
func (u *unloaded) rest(chain trace.Chain) uint64 {
	key := fmt.Sprint(chain.Addresses)
	n := chain.Count - u.taken[key]
	u.taken[key] = chain.Count
	return n
}

// all returns the chains that are counted now and those that were taken, added up where
// a library has been loaded to the same place again; and how callers were found.
func (u *unloaded) all(present []*target.Image) ([]trace.Chain, patch.ChainWay) {
	now := u.sites.session.Chains()
	way := bothWays(u.way, u.sites.chainWay(now))
	if len(u.chains) == 0 {
		return now, way
	}
	sums := &unloaded{chains: make(map[string]*trace.Chain)}
	for _, chain := range u.chains {
		sums.add(chain.Addresses, chain.Count)
	}
	for _, chain := range now {
		if chain.Count -= u.taken[fmt.Sprint(chain.Addresses)]; chain.Count == 0 {
			continue
		}
		addresses := slices.Clone(chain.Addresses)
		for i, address := range addresses {
			for _, image := range present {
				if n, ok := u.numbers[codeIn{image, address}]; ok && image.Contains(address-1) {
					addresses[i] = n
				}
			}
		}
		sums.add(addresses, chain.Count)
	}
	var chains []trace.Chain
	for _, chain := range sums.chains {
		chains = append(chains, *chain)
	}
	sortChains(chains)
	return chains, way
}

func bothWays(a, b patch.ChainWay) patch.ChainWay {
	return patch.ChainWay{Described: a.Described || b.Described, Pointers: a.Pointers || b.Pointers, Traced: a.Traced || b.Traced}
}
