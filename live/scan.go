//go:build linux

package live

import (
	"errors"

	"footfall/formats/gcov"
	"footfall/process"
)

// maxScan is the largest mapping that is searched for structures.
const maxScan = 256 << 20

// scan finds the units of an image that has no symbols, by what a gcov_info
// looks like. It lies in initialized data, so only what comes from the file is
// searched.
func (w *walker) scan(parts process.Maps) ([]*unit, error) {
	var units []*unit
	var problems []error
	for _, m := range parts {
		if !m.Read || !m.Write || m.End-m.Start > maxScan {
			continue
		}
		found, err := w.scanRange(m.Start, m.End)
		if err != nil {
			problems = append(problems, err)
		}
		units = append(units, found...)
	}
	return units, errors.Join(problems...)
}

func (w *walker) scanRange(start, end uint64) (units []*unit, err error) {
	b := make([]byte, end-start)
	n, err := w.mem.ReadAt(b, int64(start))
	if n == 0 {
		return nil, err
	}
	var unknown error
	for at := 0; at+4 <= n; at += w.pointer {
		version := gcov.Version(w.order.Uint32(b[at:]))
		if !looksLikeVersion(version) {
			continue
		}
		// One that only looks like a structure takes nothing of the limits.
		budget := *w.budget
		kinds := version.CounterKinds()
		known := kinds != 0
		if !known {
			kinds = newestKinds
		}
		u, err := w.unitOf(start+uint64(at), version, kinds)
		switch {
		case err != nil:
			budget.work = w.budget.work
			*w.budget = budget
		case !known:
			unknown = &UnknownVersionError{w.image.path, version}
		default:
			units = append(units, u)
		}
	}
	return units, unknown
}

// newestKinds is the number of kinds that is tried for an unknown version.
const newestKinds = 10

// looksLikeVersion tells whether a word may be a version: "409*", "B22*".
func looksLikeVersion(v gcov.Version) bool {
	c := [4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}
	switch {
	case c[0] >= 'A' && c[0] <= 'F':
	case c[0] >= '4' && c[0] <= '6' && c[1] == '0':
	default:
		return false
	}
	switch c[3] {
	case '*', 'e', 'p', 'r', 'R':
		return c[1] >= '0' && c[1] <= '9' && c[2] >= '0' && c[2] <= '9'
	}
	return false
}
