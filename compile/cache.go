//go:build linux

package compile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"footfall/compile/instrument"
)

// tool finds the assembler or linker that the compiler would run by a name. To ask
// takes as long as assembling a small file: the answer is kept.
func tool(compiler, name string, target []string) (string, error) {
	kept, err := keptFor(compiler, name, append([]string{os.Getenv("PATH"), os.Getenv("GCC_EXEC_PREFIX"), os.Getenv("COMPILER_PATH")}, target...))
	if err != nil {
		return "", err
	}
	if file, err := os.Readlink(kept); err == nil {
		if _, err := os.Stat(file); err == nil {
			return file, nil
		}
		_ = os.Remove(kept)
	}
	args := slices.Concat([]string{compiler}, target, []string{"-print-prog-name=" + name})
	status, out, err := program{path: compiler, args: args, env: os.Environ(), catch: []int{1}}.run()
	if err != nil {
		return "", err
	}
	if status != 0 {
		return "", fmt.Errorf("%s -print-prog-name=%s: exit status %d", compiler, name, status)
	}
	file, err := lookPath(strings.TrimSpace(string(out)))
	if err == nil && path.IsAbs(file) {
		_ = os.Symlink(file, kept) // without, the next one asks again
	}
	return file, err
}

// keptFor returns the path in the cache of what is kept of a compiler, until that
// changes, for a purpose and what else it depends on.
func keptFor(compiler, purpose string, parts []string) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	info, err := os.Stat(compiler)
	if err != nil {
		return "", err
	}
	key := append([]string{compiler, info.ModTime().String()}, parts...)
	return path.Join(cache, purpose+"-"+digest(key...)), nil
}

// cacheDir returns a directory of the user's that lasts.
func cacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	dir := path.Join(base, "footfall")
	if err != nil {
		dir = fmt.Sprintf("%s-%d", dir, os.Getuid())
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || int(stat.Uid) != os.Getuid() || info.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("%s: what is in it will be run, but others can write there", dir)
	}
	return dir, nil
}

// hookDir returns a directory in which programs of some names are footfall.
func hookDir(names ...string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := path.Join(cache, names[0]+"-"+digest(self))
	for _, name := range names {
		link := path.Join(dir, name)
		if to, err := os.Readlink(link); err == nil && to == self {
			continue
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
		if err := os.Symlink(self, link); err != nil && !errors.Is(err, os.ErrExist) {
			return "", err
		}
	}
	return dir, nil
}

// cachedRuntime returns the runtime's object for a compiler and target.
func cachedRuntime(compiler string, target []string) (string, error) {
	object, err := keptFor(compiler, "runtime", append([]string{string(instrument.Runtime())}, runtimeFlags(target)...))
	if err != nil {
		return "", err
	}
	object += ".o"
	if _, err := os.Stat(object); err == nil {
		return object, nil
	}
	return object, keep(object, func(tmp string) error { return Runtime(compiler, target, tmp) })
}

// keep has a file of the cache made under another name, and then has it all at once.
func keep(file string, write func(tmp string) error) error {
	tmp, err := os.CreateTemp(path.Dir(file), path.Base(file)+"-*.tmp")
	if err != nil {
		return err
	}
	_ = tmp.Close()
	defer os.Remove(tmp.Name())
	if err := write(tmp.Name()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}

// What the runtime stands in for, see instrument/runtime.
var (
	threadMakers      = []string{"pthread_create", "thrd_create", "clone"}
	notifiers         = []string{"timer_create", "mq_notify"} // those of dynamically linked programs
	handlerInstallers = []string{"sigaction", "signal", "bsd_signal", "ssignal", "sysv_signal", "__sysv_signal", "sigset"}
)

// dynamicList returns a file that has linkers make names dynamic symbols of a program: else
// a library that is opened later does not find them there, but in the C library.
func dynamicList(names []string) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	text := "{ " + strings.Join(names, "; ") + "; };\n"
	file := path.Join(cache, "names-"+digest(text)+".list")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	return file, keep(file, func(tmp string) error { return os.WriteFile(tmp, []byte(text), 0o600) })
}

// Runtime compiles the runtime to an object, with the compiler's flags for the
// target, but those by which a program has calling conventions or types of its own, since the
// runtime calls the C library and is called by it; and those for processors that have more than
// all have: a program may look which it is on before it uses that.
func Runtime(compiler string, flags []string, object string) error {
	file, err := lookPath(compiler)
	if err != nil {
		return err
	}
	args := append([]string{compiler}, append(runtimeFlags(flags), "-o", object)...)
	status, text, err := program{path: file, args: args, env: os.Environ(), input: instrument.Runtime(), catch: []int{1, 2}}.run()
	if err != nil {
		return err
	}
	if status != 0 {
		return fmt.Errorf("cannot compile the runtime with %s: exit status %d\n%s", compiler, status, text)
	}
	return nil
}

// runtimeFlags is with what the runtime is compiled. An object that is kept is known by all of it: another
// version of footfall may have others.
func runtimeFlags(target []string) []string {
	flags := slices.DeleteFunc(slices.Clone(target), func(flag string) bool { return ownConvention(flag) || ownProcessor(flag) })
	// A compiler for amd64 need not have the kernel's headers where -m32 looks.
	return append(flags, "-O2", "-fPIC", "-fno-lto", "-w", "-std=gnu11", "-idirafter", "/usr/include/x86_64-linux-gnu", "-x", "c", "-c", "-")
}

// ownConvention tells whether a flag changes how functions are called, or the layout of
// types; of assembly, in what syntax it is.
func ownConvention(flag string) bool {
	for _, begin := range []string{"-mabi=ms", "-mabi=sysv", "-mregparm=", "-msseregparm", "-mrtd", "-mno-rtd", "-malign-double", "-m96bit-long-double",
		"-m128bit-long-double", "-mlong-double-", "-mms-bitfields", "-mstack-arg-probe", "-mpreferred-stack-boundary=", "-mincoming-stack-boundary=",
		"-mstack-alignment=", "-masm=", "-fcall-", "-ffixed-", "-fpcc-struct-return", "-freg-struct-return", "-fpack-struct", "-fshort-enums", "-fshort-wchar"} {
		if strings.HasPrefix(flag, begin) {
			return true
		}
	}
	return false
}

// ownProcessor tells whether a flag chooses instructions: all of the machine's (-m) do but those
// for its kind, its memory and its branches.
func ownProcessor(flag string) bool {
	if !strings.HasPrefix(flag, "-m") {
		return false
	}
	for _, begin := range []string{"-m32", "-m64", "-mx32", "-mabi=", "-mcmodel=", "-mlittle-endian", "-mbig-endian", "-mbranch-protection=", "-mllvm",
		"-mshstk", "-mno-shstk", "-mtls-", "-mno-red-zone"} {
		if strings.HasPrefix(flag, begin) {
			return false
		}
	}
	return true
}

func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}
