package binary

import "testing"

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
		"\xf3\x4c\x0f\x38\xf6\xc0":                     0,  // adox, which x86asm does not know
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

func FuzzDecodeAMD64(f *testing.F) {
	f.Add([]byte("\x62\xf1\xfd\x48\x29\x44\x24\x01"))
	f.Fuzz(func(t *testing.T, code []byte) {
		if i, err := DecodeAMD64(code); err == nil && (i.Len <= 0 || i.Len > len(code)) {
			t.Errorf("% x: %d bytes", code, i.Len)
		}
	})
}
