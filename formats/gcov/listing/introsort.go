package listing

import "math/bits"

// Gcov sorts functions with C++'s std::sort, which is not stable: where more
// than 16 functions are equal (the instances of a template start at the same
// place), the order that comes out is that of the algorithm in GCC's C++
// library. It is introsort: quicksort by the median of three down to runs of
// 16, heapsort where that goes too deep, and insertion sort at the end.

// sortThreshold is the length of the runs that are left to insertion sort.
const sortThreshold = 16

// introsort sorts s in the permutation of the C++ library.
func introsort[T any](s []T, less func(a, b T) bool) {
	if len(s) < 2 {
		return
	}
	quicksort(s, less, 2*(bits.Len(uint(len(s)))-1))
	if len(s) <= sortThreshold {
		insertionSort(s, less)
		return
	}
	insertionSort(s[:sortThreshold], less)
	for i := sortThreshold; i < len(s); i++ {
		insertBackwards(s, i, less)
	}
}

func quicksort[T any](s []T, less func(a, b T) bool, depth int) {
	for len(s) > sortThreshold {
		if depth == 0 {
			heapsort(s, less)
			return
		}
		depth--
		cut := partition(s, less)
		quicksort(s[cut:], less, depth)
		s = s[:cut]
	}
}

// partition moves the median of three elements to the front, splits the rest
// by it, and returns where the upper part begins.
func partition[T any](s []T, less func(a, b T) bool) int {
	a, b, c := 1, len(s)/2, len(s)-1
	median := c
	switch {
	case less(s[a], s[b]) && less(s[b], s[c]):
		median = b
	case less(s[a], s[b]) && !less(s[a], s[c]):
		median = a
	case less(s[a], s[b]):
	case less(s[a], s[c]):
		median = a
	case !less(s[b], s[c]):
		median = b
	}
	s[0], s[median] = s[median], s[0]
	lo, hi := 1, len(s)
	for {
		for less(s[lo], s[0]) {
			lo++
		}
		hi--
		for less(s[0], s[hi]) {
			hi--
		}
		if lo >= hi {
			return lo
		}
		s[lo], s[hi] = s[hi], s[lo]
		lo++
	}
}

func insertionSort[T any](s []T, less func(a, b T) bool) {
	for i := 1; i < len(s); i++ {
		if !less(s[i], s[0]) {
			insertBackwards(s, i, less)
			continue
		}
		v := s[i]
		copy(s[1:i+1], s[:i])
		s[0] = v
	}
}

// insertBackwards moves element i down to its place.
func insertBackwards[T any](s []T, i int, less func(a, b T) bool) {
	v := s[i]
	for ; i > 0 && less(v, s[i-1]); i-- {
		s[i] = s[i-1]
	}
	s[i] = v
}

func heapsort[T any](s []T, less func(a, b T) bool) {
	for root := (len(s) - 2) / 2; root >= 0; root-- {
		sift(s, root, s[root], less)
	}
	for end := len(s) - 1; end > 0; end-- {
		v := s[end]
		s[end] = s[0]
		sift(s[:end], 0, v, less)
	}
}

// sift lets the hole sink to the bottom of the heap, by way of the larger
// child each time, and v rise from there.
func sift[T any](heap []T, hole int, v T, less func(a, b T) bool) {
	top, n := hole, len(heap)
	for hole < (n-1)/2 {
		child := 2*hole + 2
		if less(heap[child], heap[child-1]) {
			child--
		}
		heap[hole] = heap[child]
		hole = child
	}
	if n%2 == 0 && hole == (n-2)/2 {
		heap[hole] = heap[2*hole+1]
		hole = 2*hole + 1
	}
	for hole > top && less(heap[(hole-1)/2], v) {
		heap[hole] = heap[(hole-1)/2]
		hole = (hole - 1) / 2
	}
	heap[hole] = v
}
