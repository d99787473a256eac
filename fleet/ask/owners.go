package ask

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"

	"github.com/hmarr/codeowners"
)

// Owners are whose sources are, for any number of goroutines, by a CODEOWNERS file: of its patterns the last that fits a path decides, and one
// without owners says that there is none.
// (docs.github.com/repositories/managing-your-repositorys-settings-and-features/customizing-your-repository/about-code-owners)
type Owners struct {
	// Path is the path of a source from the root of the repository, which is what patterns are about; nil: its name.
	Path func(file string) string

	rules codeowners.Ruleset
	mu    sync.Mutex
	known map[string][]string
}

// Nobody is the owner of what has none.
const Nobody = "(nobody)"

// ReadOwners reads a CODEOWNERS file. A line that makes no sense is left out, as GitHub does, and is one of the problems.
func ReadOwners(name string, r io.Reader) (*Owners, []error, error) {
	o := &Owners{known: make(map[string][]string)}
	var problems []error
	lines := bufio.NewScanner(r)
	for number := 1; lines.Scan(); number++ {
		if strings.HasPrefix(strings.TrimSpace(lines.Text()), "[") {
			problems = append(problems, fmt.Errorf("%s:%d: sections, which GitLab has, are not understood", name, number))
			continue
		}
		rules, err := codeowners.ParseFile(strings.NewReader(lines.Text()), codeowners.WithOwnerMatchers([]codeowners.OwnerMatcher{codeowners.OwnerMatchFunc(anyOwner)}))
		if err != nil {
			err = errors.New(strings.TrimPrefix(err.Error(), "line 1: "))
			problems = append(problems, fmt.Errorf("%s:%d: %w", name, number, err))
		}
		o.rules = append(o.rules, rules...)
	}
	if err := lines.Err(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return o, problems, nil
}

// anyOwner takes an owner as it is written.
func anyOwner(s string) (codeowners.Owner, error) {
	return codeowners.Owner{Value: s, Type: codeowners.EmailOwner}, nil
}

// Of returns the owners of a source, [Nobody] if it has none.
func (o *Owners) Of(file string) []string {
	if o == nil {
		return []string{Nobody}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if names, known := o.known[file]; known {
		return names
	}
	var names []string
	path := file
	if o.Path != nil {
		path = o.Path(file)
	}
	if !filepath.IsAbs(path) { // else it is not of the repository
		if rule, err := o.rules.Match(path); err == nil && rule != nil {
			for _, owner := range rule.Owners {
				names = append(names, owner.String())
			}
		}
	}
	if len(names) == 0 {
		names = []string{Nobody}
	}
	o.known[file] = names
	return names
}
