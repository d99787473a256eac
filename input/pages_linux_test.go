package input

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

func TestLargeFile(t *testing.T) {
	for _, size := range []int{2*largePage - 1, 2 * largePage, 5*largePage + 77} {
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(rand.Uint32())
		}
		name := filepath.Join(t.TempDir(), "large")
		if err := os.WriteFile(name, want, 0o666); err != nil {
			t.Fatal(err)
		}
		got, err := ReadFile(name, MostData)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: %d, %v", size, len(got), err)
		}
	}
	room := make([]byte, 4*largePage) // of whatever is asked for, all stays as it is
	for i := range room {
		room[i] = 7
	}
	for from := range 100 {
		inLargePages(room[from*1000 : len(room)-from*999])
	}
	if bytes.Count(room, []byte{7}) != len(room) {
		t.Error("memory was changed")
	}
}
