package exclude

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
)

// Markers are words in a source, usually in comments, that tell what a report
// shall leave out. These are the ones of lcov and gcovr:
//
//	_EXCL_LINE _EXCL_START _EXCL_STOP                  lines, with all that is on them
//	_EXCL_FUNCTION                                     the function that begins on the line
//	_EXCL_BR_LINE _EXCL_BR_START _EXCL_BR_STOP
//	_EXCL_BR_FUNCTION                                  branches and conditions
//	_EXCL_BR_SOURCE                                    branches that lead to the line
//	_EXCL_BR_WITHOUT_HIT: 1/2                          those of the line, if 1 of 2 was not taken
//	_EXCL_EXCEPTION_BR_LINE ..._START ..._STOP         branches of exceptions
//	_UNREACHABLE_LINE _UNREACHABLE_START _UNREACHABLE_STOP     lines that must not run
//
// with LCOV, GCOV, GCOVR or LCOVR before. The line of a START is left out, that
// of a STOP is not. lcov knows them with LCOV alone and without FUNCTION, SOURCE
// and WITHOUT_HIT; gcovr without EXCEPTION and UNREACHABLE.

// MarkerPrefixes are what markers begin with.
var MarkerPrefixes = []string{"LCOV", "GCOVR", "GCOV", "LCOVR"}

// A scope is what a rule leaves out of some lines.
type scope uint8

const (
	wholeLines scope = iota
	unreachableLines
	branchScope    // and conditions
	exceptionScope // branches of exceptions
)

// A verb is what a marker does.
type verb uint8

const (
	onLine verb = iota
	startsRegion
	stopsRegion
	onFunction
	onSources
	onUnhit
)

type markerKind struct {
	scope scope
	verb  verb
}

var markerKinds = map[string]markerKind{
	"_EXCL_LINE":               {wholeLines, onLine},
	"_EXCL_START":              {wholeLines, startsRegion},
	"_EXCL_STOP":               {wholeLines, stopsRegion},
	"_EXCL_FUNCTION":           {wholeLines, onFunction},
	"_EXCL_BR_LINE":            {branchScope, onLine},
	"_EXCL_BR_START":           {branchScope, startsRegion},
	"_EXCL_BR_STOP":            {branchScope, stopsRegion},
	"_EXCL_BR_FUNCTION":        {branchScope, onFunction},
	"_EXCL_BR_SOURCE":          {branchScope, onSources},
	"_EXCL_BR_WITHOUT_HIT":     {branchScope, onUnhit},
	"_EXCL_EXCEPTION_BR_LINE":  {exceptionScope, onLine},
	"_EXCL_EXCEPTION_BR_START": {exceptionScope, startsRegion},
	"_EXCL_EXCEPTION_BR_STOP":  {exceptionScope, stopsRegion},
	"_UNREACHABLE_LINE":        {unreachableLines, onLine},
	"_UNREACHABLE_START":       {unreachableLines, startsRegion},
	"_UNREACHABLE_STOP":        {unreachableLines, stopsRegion},
}

// A marker is one in a source.
type marker struct {
	markerKind
	line, column int32 // from 1; columns are bytes
	prefix, word string
	unhit, total int // branches, of onUnhit
}

// A markerError is something wrong with a marker.
type markerError struct {
	line int32
	err  error
}

// scanMarkers returns the markers of a source in their order, and what is wrong
// with words that look like markers.
func scanMarkers(src []byte, prefixes []string) (markers []marker, wrong []markerError) {
	line, lineStart, at := int32(1), 0, 0
	for _, hit := range markerWords(src) {
		start, end := hit, hit
		for start > at && isWord(src[start-1]) {
			start--
		}
		if hit < at {
			continue // in the same word as the one before
		}
		for end < len(src) && isWord(src[end]) {
			end++
		}
		for {
			n := bytes.IndexByte(src[at:start], '\n')
			if n < 0 {
				break
			}
			line++
			at += n + 1
			lineStart = at
		}
		at = end
		m := marker{line: line, column: int32(start - lineStart + 1), prefix: string(src[start:hit])}
		if !slices.Contains(prefixes, m.prefix) {
			continue
		}
		m.word = string(src[start:end])
		var known bool
		if m.markerKind, known = markerKinds[string(src[hit:end])]; !known {
			wrong = append(wrong, markerError{line, fmt.Errorf("%s is no marker that is known: it excludes nothing", m.word)})
			continue
		}
		if m.verb == onUnhit && !m.readUnhit(src[end:]) {
			wrong = append(wrong, markerError{line, fmt.Errorf("%s must go on as in %[1]s: 1/2, when 1 of 2 branches is not taken: it excludes nothing", m.word)})
			continue
		}
		markers = append(markers, m)
	}
	return markers, wrong
}

// middles are what all markers have in their middle. They are searched for by a part that is
// rare in sources, from the given byte on: of underscores there are many.
var middles = []struct {
	text string
	rare int
}{{"_EXCL_", 2}, {"_UNREACHABLE_", 1}}

// markerWords returns the offsets of what all markers have in their middle.
func markerWords(src []byte) []int {
	var hits []int
	for _, m := range middles {
		rare := []byte(m.text[m.rare:])
		for at, end := 0, 0; ; { // end is that of the hit before
			n := bytes.Index(src[at:], rare)
			if n < 0 {
				break
			}
			if hit := at + n - m.rare; hit >= end && string(src[hit:hit+m.rare]) == m.text[:m.rare] {
				hits = append(hits, hit)
				end = hit + len(m.text)
			}
			at += n + len(rare)
		}
	}
	slices.Sort(hits)
	return hits
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

var unhitRegexp = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\A:[ \t]+([0-9]{1,6})/([0-9]{1,6})`) })

func (m *marker) readUnhit(after []byte) bool {
	match := unhitRegexp().FindSubmatch(after[:min(len(after), 64)])
	if match == nil {
		return false
	}
	m.unhit, _ = strconv.Atoi(string(match[1]))
	m.total, _ = strconv.Atoi(string(match[2]))
	return true
}

// A region is lines from which a rule leaves something out.
type region struct {
	first, last int32
	scope       scope
	rule        string
	function    string // the one that the rule is about, as the linker knows it
}

// markedRegions pairs the START and STOP markers and returns their regions, and
// those of single lines. A region that does not end leaves nothing out: a
// forgotten STOP must not hide the rest of a file.
func markedRegions(markers []marker) (regions []region, wrong []markerError) {
	open := make(map[scope][]marker)
	for _, m := range markers {
		stack := open[m.scope]
		switch m.verb {
		case onLine:
			regions = append(regions, region{first: m.line, last: m.line, scope: m.scope, rule: m.word})
		case startsRegion:
			if n := len(stack); n > 0 {
				wrong = append(wrong, markerError{m.line, fmt.Errorf("%s in the region that %s of line %d began: lcov ends both at the next STOP", m.word, stack[n-1].word, stack[n-1].line)})
			}
			open[m.scope] = append(stack, m)
		case stopsRegion:
			n := len(stack)
			if n == 0 {
				wrong = append(wrong, markerError{m.line, fmt.Errorf("%s without a START before it", m.word)})
				continue
			}
			start := stack[n-1]
			open[m.scope] = stack[:n-1]
			if start.prefix != m.prefix {
				wrong = append(wrong, markerError{m.line, fmt.Errorf("%s ends the region of %s in line %d, which another prefix begins: lcov takes only LCOV_", m.word, start.word, start.line)})
			}
			if start.line < m.line {
				regions = append(regions, region{first: start.line, last: m.line - 1, scope: m.scope, rule: start.word})
			}
		}
	}
	for _, stack := range open {
		for _, m := range stack {
			wrong = append(wrong, markerError{m.line, fmt.Errorf("%s without a STOP after it: it excludes nothing", m.word)})
		}
	}
	slices.SortStableFunc(wrong, func(a, b markerError) int { return int(a.line) - int(b.line) })
	return regions, wrong
}
