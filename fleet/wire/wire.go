// Package wire is what agents and footfall push send to a server of a fleet, version 1: messages as
// of Protocol Buffers, packed by Zstandard.
//
//	message Announcement {       // POST /api/v1/builds; the answer is a Wanted
//	  string build = 1;
//	  string release = 2;
//	  repeated bytes units = 3;  // hashes, 32 bytes each
//	  repeated bytes texts = 4;  // those of texts of sources, which a server may do without
//	}
//	message Wanted {
//	  repeated bytes units = 1;  // those that the server does not know
//	  bool texts = 2;            // it knows what texts are
//	  string no_texts = 3;       // why it takes none
//	}
//	message Units {              // POST /api/v1/units; the answer is a Wanted if texts of them were left out
//	  string build = 1;
//	  repeated Unit units = 2;
//	}
//	message Unit {
//	  string kind = 1;
//	  string name = 2;
//	  uint64 counters = 3;
//	  bytes program = 4;
//	}
//	message Batch {              // POST /api/v1/counts
//	  string build = 1;
//	  Instance instance = 2;
//	  sint64 window = 3;         // seconds since 1970
//	  sint64 seen = 4;
//	  repeated Usage usage = 5;
//	  bool once = 6;             // all that the instance ever counts is in one window, that of its first batch
//	}
//	message Instance {
//	  string host = 1;
//	  string boot = 2;
//	  sint64 pid = 3;
//	  sint64 start = 4;          // nanoseconds since 1970
//	  sint64 epoch = 5;
//	  map<string, string> labels = 6;
//	}
//	message Usage {
//	  bytes unit = 1;            // hash
//	  uint64 counters = 2;
//	  bytes hits = 3;            // varints; after a 0 how many more zeros follow
//	}
//
// What is read is limited: a message in bytes, packed and not, and a batch in counters.
package wire

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"

	"footfall/fleet/store"
)

// Limits of a message. A sender makes several of what has more.
const (
	MostPacked   = 4 << 20            // bytes
	MostBytes    = 16 << 20           // unpacked
	MostCounters = store.MostCounters // of a batch, and of a unit
	mostText     = 1 << 16            // bytes of a name
	mostLabels   = 64
)

// Paths of the server, below its address.
const (
	PathBuilds = "/api/v1/builds"
	PathUnits  = "/api/v1/units"
	PathCounts = "/api/v1/counts"
)

// ContentType is that of all messages.
const ContentType = "application/x-protobuf"

// An Announcement says which units a build has.
type Announcement struct {
	Build, Release string
	Units          []store.Hash
	Texts          []store.Hash // which are none of Units
}

// Encode returns the message.
func (a *Announcement) Encode() []byte {
	var m message
	m.text(1, a.Build)
	m.text(2, a.Release)
	m.hashes(3, a.Units)
	m.hashes(4, a.Texts)
	return m
}

// DecodeAnnouncement reads one.
func DecodeAnnouncement(b []byte) (*Announcement, error) {
	a := new(Announcement)
	err := fields(b, "Announcement", func(f field) error {
		switch f.number {
		case 1:
			return f.text(&a.Build)
		case 2:
			return f.text(&a.Release)
		case 3:
			return f.addHash(&a.Units)
		case 4:
			return f.addHash(&a.Texts)
		}
		return nil
	})
	return a, err
}

// A Wanted says what a server wants of what was announced.
type Wanted struct {
	Units   []store.Hash // that it does not know, texts too
	Texts   bool         // it knows what texts are, which older ones do not
	NoTexts string       // why it takes none
}

// Encode returns the message.
func (w *Wanted) Encode() []byte {
	var m message
	m.hashes(1, w.Units)
	if w.Texts {
		m.unsigned(2, 1)
	}
	m.text(3, w.NoTexts)
	return m
}

// DecodeWanted reads one.
func DecodeWanted(b []byte) (*Wanted, error) {
	w := new(Wanted)
	err := fields(b, "Wanted", func(f field) error {
		switch f.number {
		case 1:
			return f.addHash(&w.Units)
		case 2:
			return f.flag(&w.Texts)
		case 3:
			return f.text(&w.NoTexts)
		}
		return nil
	})
	return w, err
}

// EncodeUnits returns the message of units of a build.
func EncodeUnits(build string, units []store.Unit) []byte {
	var m message
	m.text(1, build)
	for i := range units {
		m.bytes(2, encodeUnit(&units[i]))
	}
	return m
}

func encodeUnit(u *store.Unit) message {
	var m message
	m.text(1, u.Kind)
	m.text(2, u.Name)
	m.unsigned(3, uint64(u.Counters))
	m.bytes(4, u.Program)
	return m
}

// DecodeUnits reads units, whose programs stay in b.
func DecodeUnits(b []byte) (build string, units []store.Unit, err error) {
	err = fields(b, "Units", func(f field) error {
		switch f.number {
		case 1:
			return f.text(&build)
		case 2:
			u, err := decodeUnit(f)
			units = append(units, u)
			return err
		}
		return nil
	})
	return build, units, err
}

func decodeUnit(f field) (u store.Unit, err error) {
	err = f.message("Unit", func(f field) error {
		switch f.number {
		case 1:
			return f.text(&u.Kind)
		case 2:
			return f.text(&u.Name)
		case 3:
			return f.small(&u.Counters, MostCounters)
		case 4:
			return f.value(&u.Program)
		}
		return nil
	})
	return u, err
}

// EncodeBatch returns the message of a batch. Who owns the instance is not in it: the server knows who
// sends it.
func EncodeBatch(b *store.Batch) []byte {
	var m message
	m.text(1, b.Build)
	m.bytes(2, encodeInstance(&b.Instance))
	m.signed(3, b.Window.Unix())
	m.signed(4, b.Seen.Unix())
	var one message
	for i := range b.Usage {
		one = appendUsage(one[:0], &b.Usage[i])
		if size := len(one) + 8; cap(m)-len(m) < size { // others may be as long
			m = slices.Grow(m, size*(len(b.Usage)-i))
		}
		m.bytes(5, one)
	}
	if b.Once {
		m.unsigned(6, 1)
	}
	return m
}

func encodeInstance(in *store.Instance) message {
	var m message
	m.text(1, in.Host)
	m.text(2, in.Boot)
	m.signed(3, int64(in.PID))
	m.signed(4, nanoseconds(in.Start))
	m.signed(5, int64(in.Epoch))
	for name, value := range in.Labels {
		var label message
		label.text(1, name)
		label.text(2, value)
		m.bytes(6, label)
	}
	return m
}

// nanoseconds are 0 for no time, which has none.
func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func appendUsage(m message, u *store.Usage) message {
	packed := u.Packed.Bytes()
	if u.Hits != nil {
		packed = store.PackVector(u.Hits)
	}
	m.bytes(1, u.Unit[:])
	m.unsigned(2, uint64(u.Counters()))
	m.bytes(3, packed)
	return m
}

// DecodeBatch reads a batch, whose counters stay packed, in b.
func DecodeBatch(b []byte) (*store.Batch, error) {
	batch := new(store.Batch)
	batch.Window, batch.Seen, batch.Instance.Start = time.Unix(0, 0), time.Unix(0, 0), time.Unix(0, 0) // where they are missing
	left := MostCounters
	err := fields(b, "Batch", func(f field) error {
		switch f.number {
		case 1:
			return f.text(&batch.Build)
		case 2:
			return decodeInstance(f, &batch.Instance)
		case 3:
			return f.seconds(&batch.Window)
		case 4:
			return f.seconds(&batch.Seen)
		case 5:
			u, err := decodeUsage(f, &left)
			batch.Usage = append(batch.Usage, u)
			return err
		case 6:
			return f.flag(&batch.Once)
		}
		return nil
	})
	return batch, err
}

func decodeInstance(f field, in *store.Instance) error {
	return f.message("Instance", func(f field) error {
		switch f.number {
		case 1:
			return f.text(&in.Host)
		case 2:
			return f.text(&in.Boot)
		case 3:
			return f.int(&in.PID)
		case 4:
			n, err := f.signed()
			in.Start = time.Unix(0, n)
			return err
		case 5:
			return f.int(&in.Epoch)
		case 6:
			return decodeLabel(f, in)
		}
		return nil
	})
}

func decodeLabel(f field, in *store.Instance) error {
	name, value := "", ""
	err := f.message("label", func(f field) error {
		switch f.number {
		case 1:
			return f.text(&name)
		case 2:
			return f.text(&value)
		}
		return nil
	})
	if in.Labels == nil {
		in.Labels = make(map[string]string)
	}
	in.Labels[name] = value
	if len(in.Labels) > mostLabels {
		err = errors.Join(err, fmt.Errorf("there are more than %d labels", mostLabels))
	}
	return err
}

// decodeUsage takes counters of those that are left.
func decodeUsage(f field, left *int) (u store.Usage, err error) {
	var packed []byte
	counters := 0
	err = f.message("Usage", func(f field) error {
		switch f.number {
		case 1:
			return f.hash(&u.Unit)
		case 2:
			return f.small(&counters, MostCounters)
		case 3:
			return f.value(&packed)
		}
		return nil
	})
	if err != nil {
		return u, err
	}
	if *left -= counters; *left < 0 {
		return u, fmt.Errorf("there are more than %d counters", MostCounters)
	}
	u.Packed, err = store.CheckVector(packed, counters)
	return u, err
}

// A message is one that is being written.
type message []byte

func (m *message) bytes(n protowire.Number, b []byte) {
	*m = protowire.AppendTag(*m, n, protowire.BytesType)
	*m = protowire.AppendBytes(*m, b)
}

func (m *message) text(n protowire.Number, s string) {
	if s != "" {
		m.bytes(n, []byte(s))
	}
}

func (m *message) unsigned(n protowire.Number, v uint64) {
	*m = protowire.AppendTag(*m, n, protowire.VarintType)
	*m = protowire.AppendVarint(*m, v)
}

func (m *message) signed(n protowire.Number, v int64) { m.unsigned(n, protowire.EncodeZigZag(v)) }

func (m *message) hashes(n protowire.Number, list []store.Hash) {
	for i := range list {
		m.bytes(n, list[i][:])
	}
}

// A field is one that was read.
type field struct {
	number protowire.Number
	kind   protowire.Type
	b      []byte // of BytesType
	n      uint64 // of VarintType
}

// fields calls use for each field of a message. Those of other types, which newer senders may have, are
// left out.
func fields(b []byte, name string, use func(field) error) error {
	size := len(b)
	for len(b) > 0 {
		at := size - len(b)
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("%s, offset %d: %w", name, at, protowire.ParseError(n))
		}
		b = b[n:]
		f := field{number: number, kind: kind}
		switch kind {
		case protowire.BytesType:
			f.b, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			f.n, n = protowire.ConsumeVarint(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return fmt.Errorf("%s, offset %d: %w", name, at, protowire.ParseError(n))
		}
		b = b[n:]
		if err := use(f); err != nil {
			return fmt.Errorf("%s, offset %d: %w", name, at, err)
		}
	}
	return nil
}

func (f field) message(name string, use func(field) error) error {
	if f.kind != protowire.BytesType {
		return f.other("a message")
	}
	return fields(f.b, name, use)
}

func (f field) other(want string) error {
	return fmt.Errorf("field %d is not %s", f.number, want)
}

// value is bytes, which stay where they are.
func (f field) value(b *[]byte) error {
	if f.kind != protowire.BytesType {
		return f.other("bytes")
	}
	*b = f.b
	return nil
}

func (f field) text(s *string) error {
	if f.kind != protowire.BytesType {
		return f.other("a text")
	}
	if len(f.b) > mostText {
		return fmt.Errorf("field %d has %d bytes, where at most %d were expected", f.number, len(f.b), mostText)
	}
	*s = string(f.b)
	return nil
}

func (f field) hash(h *store.Hash) error {
	if f.kind != protowire.BytesType || len(f.b) != len(h) {
		return f.other(fmt.Sprintf("a hash of %d bytes", len(h)))
	}
	*h = store.Hash(f.b)
	return nil
}

func (f field) addHash(list *[]store.Hash) error {
	var h store.Hash
	err := f.hash(&h)
	*list = append(*list, h)
	return err
}

func (f field) small(n *int, most int) error {
	if f.kind != protowire.VarintType || f.n > uint64(most) {
		return f.other(fmt.Sprintf("a number up to %d", most))
	}
	*n = int(f.n)
	return nil
}

func (f field) flag(is *bool) error {
	n := 0
	err := f.small(&n, 1)
	*is = n == 1
	return err
}

func (f field) signed() (int64, error) {
	if f.kind != protowire.VarintType {
		return 0, f.other("a number")
	}
	return protowire.DecodeZigZag(f.n), nil
}

func (f field) int(n *int) error {
	v, err := f.signed()
	if err == nil && (v < math.MinInt32 || v > math.MaxInt32) {
		err = f.other("a number of 32 bits")
	}
	*n = int(v)
	return err
}

// seconds are those since 1970, up to the year 9999.
func (f field) seconds(t *time.Time) error {
	v, err := f.signed()
	if err == nil && (v < 0 || v >= 253402300800) {
		err = f.other("a time")
	}
	*t = time.Unix(v, 0)
	return err
}

// Their tables are made when they are needed, not whenever footfall starts.
var (
	packer = sync.OnceValue(func() *zstd.Encoder {
		// An agent has it all the time: a larger window takes 16 MB.
		e, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true)) // no option is wrong
		return e
	})
	unpacker = sync.OnceValue(func() *zstd.Decoder {
		d, _ := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(MostBytes), zstd.WithDecoderConcurrency(0))
		return d
	})
)

// Pack packs a message.
func Pack(message []byte) []byte { return packer().EncodeAll(message, nil) }

// ErrTooLarge is returned for what is larger than is read.
var ErrTooLarge = errors.New("the message is too large")

// Unpack reads a packed message to its end.
func Unpack(r io.Reader) ([]byte, error) {
	packed, err := io.ReadAll(io.LimitReader(r, MostPacked+1))
	if err != nil {
		return nil, err
	}
	if len(packed) > MostPacked {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, MostPacked)
	}
	b, err := unpacker().DecodeAll(packed, nil)
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return nil, fmt.Errorf("%w: more than %d bytes unpacked", ErrTooLarge, MostBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("it is not packed by Zstandard: %w", err)
	}
	return b, nil
}
