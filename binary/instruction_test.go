package binary

import (
	"bufio"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"footfall/process/needs"
)

// TestDecodeAMD64 checks lengths that x86asm tells wrong.
func TestDecodeAMD64(t *testing.T) {
	for code, want := range map[string]int{
		"\xc5\xf8\x77\xe8\x05\xf1\xff\xff":             3,  // vzeroupper, call
		"\xc5\xfc\x77\xc3":                             3,  // vzeroall, ret
		"\xc5\xf9\x70\xc1\x1b\xc3":                     5,  // vpshufd $0x1b,%xmm1,%xmm0
		"\xc4\xe3\x7d\x39\x05\x01\x02\x03\x04\x01\xc3": 10, // vextracti128 $0x1,%ymm0,0x4030201(%rip)
		"\x62\xf1\xfd\x48\x29\x44\x24\x01\x90":         8,  // vmovapd %zmm0,0x40(%rsp)
		"\x65\xc5\xf8\x10\x04\x25\x10\x00\x00\x00\x90": 10, // vmovups %gs:0x10,%xmm0
		"\xf3\x0f\x1e\xfa\x90":                         4,  // endbr64
		"\xf3\x4c\x0f\x38\xf6\xc0":                     6,  // adox
		"\x0f\xc7\xfa\x89":                             3,  // rdseed
		"\x0f\xc7\xfa":                                 3,  // the last one that there is
		"\x0f\x01\xee\xba":                             3,  // rdpkru
		"\x8f\xe8\x78\xc2\xc0\x07\x90":                 6,  // vprotd
		"\x66\x0f\x3a\xcf\xc1\x07\x90":                 6,  // gf2p8affineinvqb
		"\x66\x0f\x3a\xcf":                             0,
		"\xc5\xf8":                                     0,
		"\x62\xf1\xfd\x48\x29\x44\x24":                 0,
		"\x62\xf4\x7c\x08\x01\xc0":                     0, // APX
		"\xc4\xe3\x7d\x39\x05\x01\x02\x03\x04":         0,
		"\x64":                                         0,
		"\xc4":                                         0,
		"\x90\xc5":                                     1,
		"\xc4\xe2\xf3\xf6\xc3\x90":                     5, // mulx
		"\xc5\xf1\x73\xf8\x04\x90":                     5, // vpslldq
		"\x62\xf1\x7c\x48\xc2\x48\x01\x00\x90":         8, // vcmpps with a mask
		"\x62\xf5\x7c\x48\x58\x48\x01\x90":             7, // vaddph
		"\xc5\xf8\x28\x84\x24\x10\x00\x00\x00\x90":     9, // vmovaps 0x10(%rsp),%xmm0
		"\xc5\xf8\x28\x04\xa5\x10\x00\x00\x00\x90":     9, // no base
	} {
		i, err := DecodeAMD64([]byte(code))
		if (err == nil) != (want > 0) || err == nil && i.Len != want {
			t.Errorf("% x: %d bytes, %v; want %d", code, i.Len, err, want)
		}
	}
}

// TestDecodedAsObjdump decodes the code of libraries and compares with objdump: the lengths of
// instructions, where branches lead, and addresses relative to the instruction.
func TestDecodedAsObjdump(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if _, err := exec.LookPath("objdump"); err != nil {
		needs.Skip(t, needs.Tools, err)
	}
	for _, name := range libraries(t) {
		f := openFile(t, name)
		code, err := f.code()
		if err != nil {
			t.Fatal(err)
		}
		compared := 0
		eachOfObjdump(t, name, func(addr, next uint64, text string) {
			i, err := DecodeAMD64(code.at(addr, decodedAhead))
			compared++
			if err == nil { // as it is decoded where nothing follows
				if alone, err := DecodeAMD64(code.at(addr, i.Len)); err != nil || alone.Len != i.Len {
					t.Errorf("%#x: %s: alone %d bytes, %v; want %d", addr, text, alone.Len, err, i.Len)
				}
			}
			if err != nil || addr+uint64(i.Len) != next {
				t.Errorf("%s: %#x %s: %d bytes, %v; want %d", name, addr, text, i.Len, err, next-addr)
				return
			}
			in := newInstruction(&i, addr)
			target, branch := in.target()
			operation, operand, _ := strings.Cut(text, " ")
			if want, err := strconv.ParseUint(strings.TrimPrefix(firstWord(operand), "0x"), 16, 64); err == nil && (strings.HasPrefix(operation, "j") || strings.HasPrefix(operation, "call")) {
				if !branch || target != want {
					t.Errorf("%s: %#x %s: leads to %#x, %v", name, addr, text, target, branch)
				}
			}
			_, relative, is := strings.Cut(text, "(%rip)")
			_, relative, _ = strings.Cut(relative, "# ")
			want, err := strconv.ParseUint(strings.TrimPrefix(firstWord(relative), "0x"), 16, 64)
			if is && err == nil {
				if got := in.end() + uint64(int64(int32(f.Order.Uint32(code.at(addr, i.Len)[i.PCRelOff:])))); i.PCRel != 4 || got != want {
					t.Errorf("%s: %#x %s: refers to %#x, %d bytes", name, addr, text, got, i.PCRel)
				}
			}
		})
		if t.Logf("%s: %d instructions", name, compared); compared < 100_000 {
			t.Errorf("%s: only %d instructions", name, compared)
		}
	}
}

func firstWord(s string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(s), " ")
	return word
}

// eachOfObjdump calls do for each instruction of a file that is followed by another one.
func eachOfObjdump(t *testing.T, path string, do func(addr, next uint64, text string)) {
	cmd := exec.Command("objdump", "-d", "--no-show-raw-insn", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var addr uint64
	text := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		number, rest, _ := strings.Cut(strings.TrimSpace(lines.Text()), ":")
		next, err := strconv.ParseUint(number, 16, 64)
		if err != nil || !strings.HasPrefix(lines.Text(), " ") {
			addr = 0
			continue
		}
		if addr != 0 && !strings.Contains(text, "(bad)") {
			do(addr, next, text)
		}
		addr, text = next, strings.Join(strings.Fields(rest), " ")
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

func FuzzDecodeAMD64(f *testing.F) {
	f.Add([]byte("\x62\xf1\xfd\x48\x29\x44\x24\x01"))
	f.Fuzz(func(t *testing.T, code []byte) {
		if i, err := DecodeAMD64(code); err == nil && (i.Len <= 0 || i.Len > len(code)) {
			t.Errorf("% x: %d bytes", code, i.Len)
		}
	})
}
