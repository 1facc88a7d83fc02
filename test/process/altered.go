// SPDX-License-Identifier: Apache-2.0

package process

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Altered builds the binary with replaced source files. files maps the paths of files of this module or of the
// standard library to their new content. With Altered, tests can build variants of the program without an additional
// option.
func Altered(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for name, text := range files {
		as := filepath.Join(dir, strings.ReplaceAll(strings.Trim(name, "/"), "/", "_"))
		if err := os.WriteFile(as, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[name] = as
	}
	b, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	list, bin := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "ilion")
	if err := os.WriteFile(list, b, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "build", "-overlay", list, "-o", bin,
		"github.com/ilion-db/ilion/cmd/ilion").CombinedOutput()
	if err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return bin
}

// Edited returns the content of a source file with one text replaced. The text must occur exactly once.
func Edited(t testing.TB, name, old, now string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), old); n != 1 {
		t.Fatalf("%s has %q %d times", name, old, n)
	}
	return strings.Replace(string(b), old, now, 1)
}

// goEnv returns an environment setting of the Go command.
func goEnv(t testing.TB, name string) string {
	t.Helper()
	b, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// shift is source text for package time of the standard library. It shifts the wall clock by the number of seconds in
// a file. An environment variable names the file. The file is memory-mapped, so a new value is a step of the clock.
// Monotonic time is not affected, as when an operator sets the clock of a machine.
const shift = `package time

import (
	"syscall"
	"unsafe"
)

var wrongBy = func() *int64 {
	name, ok := syscall.Getenv("` + shiftFile + `")
	if !ok {
		return new(int64)
	}
	fd, err := syscall.Open(name, syscall.O_RDONLY, 0)
	if err != nil {
		panic(err)
	}
	b, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	return (*int64)(unsafe.Pointer(&b[0]))
}()
`

const shiftFile = "ILION_TEST_CLOCK"

// WrongClock returns a binary whose wall clock a Clock sets. It builds the binary, unless the environment variable
// ILION_WRONG_CLOCK_BIN names one. The build recompiles the standard library. The first build takes minutes.
func WrongClock(t testing.TB) string {
	t.Helper()
	if bin := os.Getenv("ILION_WRONG_CLOCK_BIN"); bin != "" {
		return bin
	}
	dir := filepath.Join(goEnv(t, "GOROOT"), "src", "time")
	source, read := filepath.Join(dir, "time.go"), "\tsec, nsec, mono := runtimeNow()\n\tif mono == 0 {"
	return Altered(t, map[string]string{
		source: Edited(t, source, read,
			strings.Replace(read, "\n", "\n\tsec += *wrongBy\n", 1)),
		filepath.Join(dir, "wrongclock.go"): shift,
	})
}

// Clock is the wall clock of a process that runs a binary from WrongClock.
type Clock struct {
	t    testing.TB
	name string
}

// NewClock returns a correct clock.
func NewClock(t testing.TB) *Clock {
	t.Helper()
	c := &Clock{t: t, name: filepath.Join(t.TempDir(), "clock")}
	c.Set(0)
	return c
}

// Environ returns the environment with which the process must be started.
func (c *Clock) Environ() []string { return append(os.Environ(), shiftFile+"="+c.name) }

// Set immediately changes the offset of the clock by whole seconds. A positive offset sets the clock ahead.
func (c *Clock) Set(by time.Duration) {
	c.t.Helper()
	f, err := os.OpenFile(c.name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 8)
	binary.NativeEndian.PutUint64(b, uint64(int64(by/time.Second)))
	if _, err := f.Write(b); err != nil {
		c.t.Fatal(err)
	}
}
