package report

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
)

// printGitLab writes GitLab's code quality report (docs.gitlab.com, "Code
// Quality", "Code Quality report format"), an array of findings. A finding is
// known again in another report by its fingerprint, which must not change when
// lines move: it is a hash of the file, the function, and of how many findings
// of the same kind the function has before it.
func printGitLab(w io.Writer, r *Report) error {
	var j jsonWriter
	j.raw("[")
	before := make(map[string]int)
	first := true
	finding := func(description, kind, severity, key, file string, begin, end int32) {
		sum := sha256.Sum256([]byte(key))
		if !first {
			j.raw(",")
		}
		first = false
		j.raw("\n" + `{"description":`)
		j.text(description)
		j.raw(`,"check_name":`)
		j.text(kind)
		j.raw(`,"fingerprint":`)
		j.text(hex.EncodeToString(sum[:16]))
		j.raw(`,"severity":`)
		j.text(severity)
		j.raw(`,"location":{"path":`)
		j.text(file)
		j.number(`,"lines":{"begin":`, int64(begin))
		j.number(`,"end":`, int64(end))
		j.raw("}}}")
	}
	for _, name := range r.Stale {
		const kind = "changed-since-compiled"
		finding("changed since it was compiled: counts may stand beside other lines", kind, "major", kind+"\x00"+r.Shown(name), r.Shown(name), 1, 1)
	}
	for _, h := range r.holes() {
		kind, severity := "uncovered-lines", "minor"
		switch {
		case h.lines == 0:
			kind, severity = "untaken-branches", "info"
		case h.whole():
			kind, severity = "uncalled-function", "major"
		}
		function := ""
		if h.function != nil {
			function = h.function.Name
		}
		key := kind + "\x00" + h.file + "\x00" + function
		before[key]++
		finding(h.message(), kind, severity, fmt.Sprintf("%s\x00%d", key, before[key]-1), h.file, h.first, h.last)
		if len(j.buf) > 1<<16 {
			if err := j.flush(w); err != nil {
				return err
			}
		}
	}
	j.raw("\n]\n")
	return j.flush(w)
}
