package serve

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"footfall/fleet/store"
	"footfall/fleet/wire"
)

// texts is how much room there is for the texts of sources of a project. What does not fit is left out, and what was counted is
// taken without it.
type texts struct {
	most int64 // bytes, packed; 0: none are taken

	mu    sync.Mutex
	known bool  // kept is what the store says
	kept  int64 // bytes, packed
	added int64 // bytes that came since, as they are: no more when they are packed, but for a few
	full  bool  // something did not fit: nothing is tried before the next expiry
}

// again has the store be asked again, which may have forgotten some.
func (t *texts) again() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known, t.full = false, false
}

// why says why no texts are taken, "" if they are.
func (t *texts) why() string {
	switch {
	case t.most == 0:
		return "the server takes no text of sources (--max-sources=0)"
	case t.full:
		return fmt.Sprintf("the text of sources of the project takes as much as the server keeps: %d MB (--max-sources)", t.most>>20)
	}
	return ""
}

// want leaves texts out of what is wanted if there is no room.
func (t *texts) want(w *wire.Wanted, texts []store.Hash) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.NoTexts = t.why(); w.NoTexts == "" || len(texts) == 0 {
		return
	}
	are := make(map[store.Hash]bool, len(texts))
	for _, hash := range texts {
		are[hash] = true
	}
	before := len(w.Units)
	w.Units = slices.DeleteFunc(w.Units, func(hash store.Hash) bool { return are[hash] })
	if len(w.Units) == before { // all are there
		w.NoTexts = ""
	}
}

// admit leaves texts out of units if there is no room for all of them, and says why.
func (t *texts) admit(ctx context.Context, s store.Store, list []store.Unit) (rest []store.Unit, why string, err error) {
	size := int64(0)
	isText := func(u store.Unit) bool { return u.Kind == store.Text }
	for i := range list {
		if isText(list[i]) {
			size += int64(len(list[i].Program))
		}
	}
	if size == 0 {
		return list, "", nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.why() == "" && (!t.known || t.kept+t.added+size > t.most && t.added > 0) {
		if t.kept, err = s.TextBytes(ctx); err != nil {
			return nil, "", err
		}
		t.known, t.added = true, 0
	}
	t.full = t.full || t.kept+t.added+size > t.most
	if why = t.why(); why != "" {
		return slices.DeleteFunc(list, isText), why, nil
	}
	t.added += size
	return list, "", nil
}
