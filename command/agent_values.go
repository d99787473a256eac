package command

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Values of agent's options are checked wherever footfall.toml is read.

// parseReleases reads [PROGRAM=]NAME, and returns what tells the release of a program by its path.
func parseReleases(list []string) (func(program string) string, error) {
	of := make(map[string]string)
	for _, text := range list {
		program, name, is := strings.Cut(text, "=")
		if !is {
			program, name = "", text
		}
		if name == "" {
			return nil, fmt.Errorf("--release=%s: a name was expected", text)
		}
		if _, twice := of[program]; twice {
			return nil, errors.New("--release is there twice for the same program")
		}
		of[program] = name
	}
	return func(path string) string {
		for _, program := range []string{path, filepath.Base(path)} {
			if name, is := of[program]; is {
				return name
			}
		}
		return of[""]
	}, nil
}

func checkEvery(d time.Duration) error {
	if d < time.Second {
		return fmt.Errorf("--every=%v: a second or more was expected", d)
	}
	return nil
}

func checkSpoolLimit(megabytes int) error {
	if megabytes < 1 {
		return fmt.Errorf("--spool-limit=%d: 1 or more was expected", megabytes)
	}
	return nil
}
