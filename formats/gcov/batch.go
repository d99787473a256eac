package gcov

import (
	"cmp"
	"slices"
	"strings"

	"footfall/coverage"
)

// This file divides the distinct functions into batches. Sources that some function
// names together are in one batch, so that nothing has to be known of the others to
// say what ran in them: each batch is added up and made files of by itself, and
// the memory for that is used again.

// A batch is functions, ordered by source.
type batch struct {
	refs []ref
	size int // of their bytes
}

// A ref is a function in the pool.
type ref struct {
	order uint64 // by the rank of its source, then by its checksum
	shape uint32
	id    distinctID
	size  int32
	ran   bool
}

func newRef(rank int32, id distinctID, d *distinct) ref {
	return ref{uint64(rank)<<32 | uint64(d.sum), d.shape, id, d.size, d.executed()}
}

// cost is about what it takes to add a function up, in bytes of one that is laid out and solved: one of
// the same shape as that before is not laid out again.
func (r ref) cost(before *ref) int {
	switch {
	case before == nil || before.shape != r.shape:
		return int(r.size)
	case r.ran:
		return int(r.size) / 2
	}
	return int(r.size) / 8
}

func (r ref) rank() int32 { return int32(r.order >> 32) }

// sortRefs orders functions by source. Those of the same shape follow each other, where the
// first of them by checksum would be: so the order is the same in every run, though shapes are
// not.
func sortRefs(refs []ref) []ref {
	sorted, sources := bySource(refs)
	coverage.Parallel(len(sources), func(i int) { sortSource(sources[i]) })
	return sorted
}

// bySource returns functions by the rank of their source, and cut into those of each.
func bySource(refs []ref) (sorted []ref, sources [][]ref) {
	var ends []int // of each rank
	for _, r := range refs {
		for int(r.rank()) >= len(ends) {
			ends = append(ends, 0)
		}
		ends[r.rank()]++
	}
	at := 0
	for rank, n := range ends {
		ends[rank] = at
		at += n
	}
	sorted = make([]ref, len(refs))
	for _, r := range refs {
		sorted[ends[r.rank()]] = r
		ends[r.rank()]++
	}
	from := 0
	for _, end := range ends {
		if end > from {
			sources = append(sources, sorted[from:end])
		}
		from = end
	}
	return sorted, sources
}

// sortSource orders the functions of a source.
func sortSource(refs []ref) {
	slices.SortFunc(refs, func(a, b ref) int {
		if a.shape != b.shape {
			return cmp.Compare(a.shape, b.shape)
		}
		return cmp.Compare(a.order, b.order)
	})
	var shapes []span
	for from, i := 0, 1; i <= len(refs); i++ {
		if i == len(refs) || refs[i].shape != refs[from].shape {
			shapes = append(shapes, span{int32(from), int32(i - from)})
			from = i
		}
	}
	slices.SortFunc(shapes, func(a, b span) int { return cmp.Compare(refs[a.at].order, refs[b.at].order) })
	sorted := make([]ref, 0, len(refs))
	for _, s := range shapes {
		sorted = append(sorted, refs[s.at:s.at+s.n]...)
	}
	copy(refs, sorted)
}

// Batches smaller than leastBatch cost more than they save, larger ones than mostBatch save
// no memory.
const (
	leastBatch = 1 << 14
	mostBatch  = 1 << 21
)

// batches divides the functions of the pool, for so many workers. The order does not
// depend on which were seen first. wanted tells of each distinctID whether it is asked
// for, nil: all are.
func (c *collector) batches(wanted []bool, workers int) []batch {
	ranks, ends := c.sources.ranks()
	n, total := 0, 0
	for i := range c.pool.shards {
		n += c.pool.shards[i].n
	}
	refs := make([]ref, 0, n)
	for i := range c.pool.shards {
		sh := &c.pool.shards[i]
		for k := range sh.n {
			id := makeDistinctID(int32(i), int32(k))
			if wanted != nil && (int(id) >= len(wanted) || !wanted[id]) {
				continue
			}
			d := sh.at(k)
			refs = append(refs, newRef(ranks[d.home], id, d))
			total += int(d.size)
		}
	}
	refs = sortRefs(refs)
	enough := min(max(total/(64*workers), leastBatch), mostBatch)
	var list []batch
	var open batch
	from := 0
	for i, r := range refs {
		if i > 0 && open.size >= enough && ends[refs[i-1].rank()] != ends[r.rank()] {
			open.refs = refs[from:i]
			list, open, from = append(list, open), batch{}, i
		}
		open.size += int(r.size)
	}
	if len(refs) > from {
		open.refs = refs[from:]
		list = append(list, open)
	}
	return list
}

// split cuts the list into parts that take about as long.
func (b *batch) split(parts int) [][]ref {
	costs, total := make([]int, len(b.refs)), 0
	var before *ref
	for i := range b.refs {
		costs[i] = b.refs[i].cost(before)
		total += costs[i]
		before = &b.refs[i]
	}
	out := make([][]ref, parts)
	sum, from := 0, 0
	for i := range out {
		to := from
		for to < len(b.refs) && (sum < total/parts*(i+1) || i == parts-1) {
			sum += costs[to]
			to++
		}
		out[i] = b.refs[from:to]
		from = to
	}
	return out
}

// ranks orders the sources so that those which are joined follow each other, else by path. Of
// each it returns its rank by number, and of each rank the end of those that are joined.
func (s *sources) ranks() (ranks, ends []int32) {
	n := len(s.list)
	first, order := make([]int32, n), make([]int32, n) // of those joined, the first by path
	for i := range order {
		order[i], first[i] = int32(i), -1
	}
	slices.SortFunc(order, func(a, b int32) int { return strings.Compare(s.list[a], s.list[b]) })
	place := make([]int32, n)
	for i, file := range order {
		place[file] = int32(i)
		if root := s.joined.root(file); first[root] < 0 {
			first[root] = int32(i)
		}
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(first[s.joined.root(a)], first[s.joined.root(b)]), cmp.Compare(place[a], place[b]))
	})
	ranks, ends = make([]int32, n), make([]int32, n)
	for from := 0; from < n; {
		to := from
		for root := s.joined.root(order[from]); to < n && s.joined.root(order[to]) == root; to++ {
			ranks[order[to]] = int32(to)
		}
		for i := from; i < to; i++ {
			ends[i] = int32(to)
		}
		from = to
	}
	return ranks, ends
}

// joined are disjoint sets of sources by number (Tarjan's union-find, paths halved). A
// number beyond the end is a set of its own.
type joined []int32

func (j joined) root(file int32) int32 {
	for int(file) < len(j) && j[file] != file {
		j[file] = j[j[file]]
		file = j[file]
	}
	return file
}

func (j *joined) join(a, b int32) {
	for n := int32(len(*j)); n <= max(a, b); n++ {
		*j = append(*j, n)
	}
	if a, b = j.root(a), j.root(b); a != b {
		(*j)[max(a, b)] = min(a, b)
	}
}

// An arena hands out memory that is used again after each batch.
type arena[T any] struct {
	blocks [][]T
	block  int // the one from which memory is taken, of which
	used   int // so much has been
}

// arenaBlock is how many elements a block has, or more if so many are asked for at once.
const arenaBlock = 256

// take returns n elements that are zero.
func (a *arena[T]) take(n int) []T {
	for a.block < len(a.blocks) && len(a.blocks[a.block])-a.used < n {
		a.block, a.used = a.block+1, 0
	}
	if a.block == len(a.blocks) {
		a.blocks = append(a.blocks, make([]T, max(n, arenaBlock)))
	}
	list := a.blocks[a.block][a.used:][:n:n]
	a.used += n
	clear(list)
	return list
}

// reset takes all back.
func (a *arena[T]) reset() { a.block, a.used = 0, 0 }
