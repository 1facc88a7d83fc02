// SPDX-License-Identifier: Apache-2.0

//go:build unix

package function

import (
	"syscall"
	"testing"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/query/function/script"
)

// processor returns the CPU time that the process has used, in nanoseconds.
func processor() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkCall measures the duration of a call and the total CPU time of all threads.
func BenchmarkCall(b *testing.B) {
	f := New(script.New(script.Bounds{}), compat.Cassandra50, true)
	for _, c := range []struct{ language, body string }{{Java, "return x == null ? -1 : x + 1;"},
		{JavaScript, "x + 1"}} {
		b.Run(c.language, func(b *testing.B) {
			call, err := f.Compile(fn(c.language, c.body, tInt, tInt))
			if err != nil {
				b.Fatal(err)
			}
			args := [][]byte{intOf(7)}
			began := processor()
			for b.Loop() {
				if _, err := call(nil, args); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(processor()-began)/float64(b.N), "cpu-ns/op")
		})
	}
}
