package wire

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"footfall/fleet/store"
)

var aBatch = &store.Batch{
	Build: "abc", Window: time.Unix(1_700_000_000, 0), Seen: time.Unix(1_700_000_030, 0), Once: true,
	Instance: store.Instance{Host: "h", Boot: "b", PID: 7, Start: time.Unix(1, 2), Epoch: 3, Labels: map[string]string{"test": "t", "region": ""}},
	Usage:    []store.Usage{{Unit: store.Hash{1}, Hits: []uint64{0, 0, 1 << 63, 5}}, {Unit: store.Hash{2}, Hits: []uint64{}}},
}

// unpack has counters be as numbers, by which they are compared.
func unpack(b *store.Batch) *store.Batch {
	for i := range b.Usage {
		b.Usage[i] = store.Usage{Unit: b.Usage[i].Unit, Hits: b.Usage[i].Packed.Into([]uint64{})}
	}
	return b
}

func TestRoundTrip(t *testing.T) {
	batch, err := DecodeBatch(EncodeBatch(aBatch))
	unpack(batch)
	if diff := cmp.Diff(aBatch, batch, cmp.AllowUnexported(store.Vector{})); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	wantAnnounced := &Announcement{Build: "b", Release: "r", Units: []store.Hash{{1}, {2}}, Texts: []store.Hash{{3}}}
	announced, err := DecodeAnnouncement(wantAnnounced.Encode())
	if diff := cmp.Diff(wantAnnounced, announced); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	wantWanted := &Wanted{Units: announced.Units, Texts: true, NoTexts: "full"}
	wanted, err := DecodeWanted(wantWanted.Encode())
	if diff := cmp.Diff(wantWanted, wanted); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	units := []store.Unit{{Kind: "k", Name: "a.c", Counters: 3, Program: []byte{1, 2}}, {Kind: "k", Name: "b.c", Program: []byte{}}}
	build, got, err := DecodeUnits(EncodeUnits("b", units))
	if diff := cmp.Diff(units, got); err != nil || diff != "" || build != "b" {
		t.Errorf("%s %v (-want +got):\n%s", build, err, diff)
	}
}

// TestLimits refuses what would take much room.
func TestLimits(t *testing.T) {
	many := message{}
	usage := appendUsage(nil, &store.Usage{Hits: make([]uint64, MostCounters/2+1)})
	many.bytes(5, usage)
	if _, err := DecodeBatch(many); err != nil {
		t.Error(err)
	}
	many.bytes(5, usage)
	if _, err := DecodeBatch(many); err == nil {
		t.Error("a batch with too many counters was taken")
	}
	labels := message{}
	for i := range mostLabels + 1 {
		var label message
		label.text(1, string(rune('a'+i)))
		labels.bytes(6, label)
	}
	if _, err := DecodeBatch(append(message{}, func() message { var m message; m.bytes(2, labels); return m }()...)); err == nil {
		t.Error("too many labels were taken")
	}
	if _, err := Unpack(bytes.NewReader(Pack(make([]byte, MostBytes+1)))); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a bomb: %v", err)
	}
	if _, err := Unpack(bytes.NewReader(make([]byte, MostPacked+1))); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a long message: %v", err)
	}
	if b, err := Unpack(bytes.NewReader(Pack([]byte("hello")))); err != nil || string(b) != "hello" {
		t.Errorf("%q, %v", b, err)
	}
}

// FuzzDecode reads bytes of anybody as each message: what is read is the same when it was written and read again.
func FuzzDecode(f *testing.F) {
	f.Add(EncodeBatch(aBatch))
	f.Add([]byte{})
	f.Add((&Announcement{Build: "b", Units: []store.Hash{{1}}}).Encode())
	f.Add(EncodeUnits("b", []store.Unit{{Kind: "k", Name: "a.c", Counters: 3, Program: []byte{1, 2}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if batch, err := DecodeBatch(b); err == nil {
			again, err := DecodeBatch(EncodeBatch(unpack(batch)))
			if err == nil {
				unpack(again)
			}
			same := func(a, b store.Usage) bool { return a.Unit == b.Unit && slices.Equal(a.Hits, b.Hits) }
			if err != nil || !slices.EqualFunc(batch.Usage, again.Usage, same) {
				t.Errorf("%v: it has become another", err)
			}
		}
		if a, err := DecodeAnnouncement(b); err == nil {
			if again, err := DecodeAnnouncement(a.Encode()); err != nil || !cmp.Equal(a, again) {
				t.Errorf("%v, %v", again, err)
			}
		}
		if build, units, err := DecodeUnits(b); err == nil {
			if _, again, err := DecodeUnits(EncodeUnits(build, units)); err != nil || len(again) != len(units) {
				t.Errorf("%v, %v", again, err)
			}
		}
		_, _ = DecodeWanted(b)
		_, _ = Unpack(bytes.NewReader(b))
	})
}
