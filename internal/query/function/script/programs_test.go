// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// TestCompileTime checks that the CPU time and the request's context limit the compilation of a script. The caller of
// an unfinished compilation and all waiting requests must receive an error. Only CPU time must count, so that a busy
// machine does not reject scripts.
func TestCompileTime(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the CPU time of a thread cannot be read")
	}
	e := New(Bounds{CompileTime: 20 * time.Millisecond})
	program := new(Program)
	var ended atomic.Bool
	busy := func() (*Program, error) {
		for !ended.Load() {
		}
		return program, nil
	}
	end := make(chan struct{})
	idle := func() (*Program, error) { <-end; return program, nil }
	for _, body := range []string{"busy", "waiting"} {
		if _, err := e.compiled(t.Context(), body, body, busy); err == nil {
			t.Errorf("%s: the script was compiled", body)
		}
	}
	ended.Store(true)
	e.programs.compiling <- struct{}{} // blocks until the compilation ends
	<-e.programs.compiling
	if p, err := e.compiled(t.Context(), "busy", "busy", nil); p != program || err != nil {
		t.Errorf("after the compilation: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	limit := time.AfterFunc(100*time.Millisecond, cancel) // several times CompileTime
	defer limit.Stop()
	if _, err := e.compiled(ctx, "idle", "idle", idle); err == nil || ctx.Err() == nil {
		t.Errorf("an idle compilation ended before its context: %v", err)
	}
	close(end)
}
