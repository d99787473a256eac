//go:build linux

package agent

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"footfall/fleet/client"
	"footfall/fleet/store"
	"footfall/fleet/wire"
	"footfall/input"
	"footfall/output"
)

// A spool is what is on disk:
//
//	state            see state
//	batches/NUMBER   packed messages that the server has not taken so far
//	builds/NAME      packed messages that announce the builds
//	units/HASH       packed messages, each with a unit of a build
//	lock             of the agent that uses it
type spool struct {
	dir    string
	most   int64
	server *client.Client
	log    *slog.Logger
	lock   *os.File
	woken  chan struct{}
	told   map[string]time.Time // builds that the server knows, as they were written then
	said   time.Time            // when it was said that the server does not take what there is
	noText bool                 // it was said that it takes no texts
}

// saidAgain is after how long that is said again.
const saidAgain = 10 * time.Minute

func openSpool(o Options) (*spool, error) {
	s := &spool{dir: o.Dir, most: o.Most, server: o.Server, log: o.Log, woken: make(chan struct{}, 1), told: make(map[string]time.Time)}
	dirs := []string{"", "batches", "builds", "units"}
	for _, dir := range dirs {
		if err := os.MkdirAll(filepath.Join(s.dir, dir), 0o700); err != nil {
			return nil, err
		}
	}
	lock, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("%s: another footfall agent uses it: %w", s.dir, err)
	}
	s.lock = lock
	for _, dir := range dirs {
		entries, err := os.ReadDir(filepath.Join(s.dir, dir))
		for _, entry := range entries {
			if isTemporary(entry) {
				err = errors.Join(err, os.Remove(filepath.Join(s.dir, dir, entry.Name())))
			}
		}
		if err != nil {
			lock.Close()
			return nil, err
		}
	}
	return s, nil
}

func (s *spool) close() { s.lock.Close() }

// write writes a file that is there as a whole or not at all, and is on disk when it returns.
func (s *spool) write(name string, content []byte) error {
	return output.Replace(filepath.Join(s.dir, name), content)
}

// readState returns the state, nil if there is none, and completes what it began.
func (s *spool) readState() (*state, error) {
	b, err := os.ReadFile(filepath.Join(s.dir, "state"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	n := new(state)
	if err := json.Unmarshal(b, n); err != nil {
		return nil, fmt.Errorf("%s: it is damaged: %w; remove it: what was counted since the last look is lost then", filepath.Join(s.dir, "state"), err)
	}
	return n, s.put(n)
}

// keep makes a state the one from which the next agent goes on, if this one ends now.
func (s *spool) keep(ctx context.Context, n *state) error {
	b, err := json.Marshal(n)
	if err == nil {
		err = s.write("state", b)
	}
	if err != nil {
		return err
	}
	// The state has the batches as well: what is not put into files now is put there later, but before the next state.
	for err = s.put(n); err != nil; err = s.put(n) {
		s.log.Error("what is to be sent cannot be kept", "error", err)
		select {
		case <-ctx.Done():
			return err // the next agent does it
		case <-time.After(time.Second):
		}
	}
	return nil
}

func (s *spool) put(n *state) error {
	for _, b := range n.Batches {
		if err := s.write(filepath.Join("batches", fmt.Sprintf("%016x", b.Number)), b.Message); err != nil {
			return err
		}
	}
	return nil
}

// unused is the first number from one on that no batch has.
func (s *spool) unused(from uint64) (uint64, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "batches"))
	for _, entry := range entries {
		if n, err := strconv.ParseUint(entry.Name(), 16, 64); err == nil {
			from = max(from, n+1)
		}
	}
	return from, err
}

// keepUnit keeps a unit for when the server wants it.
func (s *spool) keepUnit(hash store.Hash, u store.Unit) error {
	name := filepath.Join("units", hex.EncodeToString(hash[:]))
	if _, err := os.Stat(filepath.Join(s.dir, name)); err == nil {
		return nil
	}
	return s.write(name, wire.Pack(wire.EncodeUnits("", []store.Unit{u})))
}

// keepBuild keeps what units a build has, and which texts of sources.
func (s *spool) keepBuild(build, release string, hashes, texts []store.Hash) error {
	a := wire.Announcement{Build: build, Release: release, Units: hashes, Texts: texts}
	return s.write(filepath.Join("builds", nameOf(build)), wire.Pack(a.Encode()))
}

// nameOf is a name of a file for a build.
func nameOf(build string) string {
	return hex.EncodeToString([]byte(build))
}

// tidy removes builds that are not of the state nor of what is to be sent, and units of no build.
func (s *spool) tidy(n *state) {
	used := make(map[string]bool)
	for build := range n.Builds {
		used[nameOf(build)] = true
	}
	for _, build := range n.Ran {
		used[nameOf(build)] = true
	}
	batches, err := s.batches()
	for _, name := range batches {
		batch, failed := unpack(name, wire.DecodeBatch)
		if err = errors.Join(err, failed); err == nil {
			used[nameOf(batch.Build)] = true
		}
	}
	if err == nil {
		err = s.removeOthers("builds", used)
	}
	builds, failed := os.ReadDir(filepath.Join(s.dir, "builds"))
	err = errors.Join(err, failed)
	used = make(map[string]bool)
	for _, build := range builds {
		a, failed := unpack(filepath.Join(s.dir, "builds", build.Name()), wire.DecodeAnnouncement)
		if err = errors.Join(err, failed); err != nil {
			break
		}
		for _, hash := range append(a.Units, a.Texts...) {
			used[hex.EncodeToString(hash[:])] = true
		}
	}
	if err == nil {
		err = s.removeOthers("units", used)
	}
	if err != nil {
		s.log.Warn("the spool is not tidied up", "error", err)
	}
}

func (s *spool) removeOthers(dir string, used map[string]bool) error {
	entries, err := os.ReadDir(filepath.Join(s.dir, dir))
	for _, entry := range entries {
		if !used[entry.Name()] {
			err = errors.Join(err, os.Remove(filepath.Join(s.dir, dir, entry.Name())))
		}
	}
	return err
}

// batches are the files of what is to be sent, the oldest first.
func (s *spool) batches() (names []string, err error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "batches"))
	for _, entry := range entries {
		if !isTemporary(entry) {
			names = append(names, filepath.Join(s.dir, "batches", entry.Name()))
		}
	}
	return names, err
}

// isTemporary tells of a file whether it is not under its name yet, or never will be as its agent was killed.
func isTemporary(entry fs.DirEntry) bool { return strings.HasPrefix(entry.Name(), ".") }

// full tells whether there is no room for more batches. There is for one.
func (s *spool) full() (bool, error) {
	waiting, err := s.batches()
	if err != nil || len(waiting) == 0 {
		return false, err
	}
	size := int64(0)
	err = filepath.WalkDir(s.dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return ignoreGone(err)
		}
		info, err := entry.Info()
		if err == nil {
			size += info.Size()
		}
		return ignoreGone(err)
	})
	return size > s.most, err
}

// ignoreGone is for what has just been sent.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// wake has what is to be sent be looked at.
func (s *spool) wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// sendAll sends what there is and what comes, until ctx ends.
func (s *spool) sendAll(ctx context.Context) {
	for {
		_ = client.Persist(ctx, func() error { return s.sendOnce(ctx) })
		select {
		case <-ctx.Done():
			return
		case <-s.woken:
		case <-time.After(time.Minute):
		}
	}
}

// sendOnce sends what there is, the oldest first. What the server does not take is told; it stays, unless it never will.
func (s *spool) sendOnce(ctx context.Context) error {
	names, err := s.batches()
	if err != nil {
		s.log.Error("send", "error", err)
		return nil
	}
	for _, name := range names {
		err := s.send(ctx, name)
		if err != nil && !isRefused(err) {
			if ctx.Err() == nil && (time.Since(s.said) > saidAgain) {
				s.said = time.Now()
				s.log.Warn("what was counted is kept until the server takes it", "error", err)
			}
			return err
		}
		if err != nil {
			s.log.Error("it can never be sent: it is removed", "file", name, "error", err)
		}
		if err := os.Remove(name); err != nil {
			s.log.Error("send", "error", err)
			return nil
		}
	}
	return nil
}

// damaged is the error of a file that is no batch: what is written whole is only that when the disk has failed.
type damaged struct{ error }

// isRefused tells errors of what can never be taken from others, such as that of a token.
func isRefused(err error) bool {
	answer := (*client.Error)(nil)
	return errors.As(err, new(damaged)) || errors.As(err, &answer) && slices.Contains([]int{http.StatusGone, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge}, answer.Status)
}

// send sends a batch, after its build if the server does not know that.
func (s *spool) send(ctx context.Context, name string) error {
	batch, err := unpack(name, wire.DecodeBatch)
	if err != nil {
		return damaged{err}
	}
	for {
		// A build may get more units, and texts, later.
		written := input.Modified(filepath.Join(s.dir, "builds", nameOf(batch.Build)))
		told, known := s.told[batch.Build]
		fresh := !known || !told.Equal(written)
		if fresh {
			if err := s.tell(ctx, batch.Build); err != nil {
				return err
			}
			s.told[batch.Build] = written
		}
		err := s.server.Push(ctx, batch)
		answer := (*client.Error)(nil)
		if fresh || !errors.As(err, &answer) || !answer.UnknownUnits() {
			return err
		}
		delete(s.told, batch.Build) // its store is another one
	}
}

// tell tells a build and those of its units that are not known.
func (s *spool) tell(ctx context.Context, build string) error {
	a, err := unpack(filepath.Join(s.dir, "builds", nameOf(build)), wire.DecodeAnnouncement)
	if err != nil {
		return fmt.Errorf("build %s: %w", build, err)
	}
	why, err := s.server.TellKept(ctx, a, func(hash store.Hash) (store.Unit, error) {
		name := filepath.Join(s.dir, "units", hex.EncodeToString(hash[:]))
		list, err := unpack(name, func(b []byte) ([]store.Unit, error) {
			_, list, err := wire.DecodeUnits(b)
			return list, err
		})
		if err == nil && len(list) != 1 {
			err = errors.New("it has not one unit")
		}
		if err != nil {
			return store.Unit{}, fmt.Errorf("%s: %w", name, err)
		}
		return list[0], nil
	})
	if err == nil && why != nil && !s.noText {
		s.noText = true
		s.log.Warn("the text of sources is not taken, or not all of it; what was counted is", "error", why)
	}
	return err
}

// unpack reads a message from a file.
func unpack[T any](name string, decode func([]byte) (T, error)) (value T, err error) {
	packed, err := os.ReadFile(name)
	if err != nil {
		return value, err
	}
	message, err := wire.Unpack(bytes.NewReader(packed))
	if err != nil {
		return value, err
	}
	return decode(message)
}
