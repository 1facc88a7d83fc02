// SPDX-License-Identifier: Apache-2.0

package container

import (
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/meter"
)

// TestCompiling checks that running queries reserve memory for their texts until they are released. The longest text
// can always be compiled alone, and short texts reserve no memory.
func TestCompiling(t *testing.T) {
	pool := meter.NewPool(1 << 20)
	e := New(Options{Memory: pool})
	long := strings.Repeat("x", 512<<10)
	var releases []func()
	for range 2 {
		release, err := e.Compiling(long)
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, release)
	}
	if _, err := e.Compiling(long); StatusOf(err) != 503 {
		t.Errorf("a third long text: %v", err)
	}
	release, err := e.Compiling("SELECT * FROM c")
	if err != nil {
		t.Errorf("a short text: %v", err)
	}
	for _, release := range append(releases, release) {
		release()
	}
	if pool.Used() != 0 {
		t.Errorf("%d bytes are left in use", pool.Used())
	}
	if release, err = e.Compiling(long[:4<<10]); err != nil || pool.Used() != 4<<10*compiledBytes {
		t.Errorf("a text of 4 KB: %v, %d bytes", err, pool.Used())
	}
	release()
}
