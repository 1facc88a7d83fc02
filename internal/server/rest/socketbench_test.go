// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rest

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// BenchmarkSockets measures the total processor time of requests over a socket. It includes the kernel, the server, and
// a client that sends prepared bytes. Each of the 16 connections has one request in flight.
func BenchmarkSockets(b *testing.B) {
	f := newFake()
	keys := &Keys{Primary: keyOf(0), Secondary: keyOf(1), ReadOnly: keyOf(2)}
	s := New(f, noScripts{}, Options{Account: &surface{keys: keys}})
	text := func(method, path, body string, header map[string]string) string {
		return string(signedText(b, keys.Primary, method, path, body, header))
	}
	addr := listen(b, s)
	ask := func(c net.Conn, in *bufio.Reader, request string) int {
		if _, err := io.WriteString(c, request); err != nil {
			b.Error(err)
		}
		status, length := 0, 0
		for {
			line, err := in.ReadSlice('\n')
			if err != nil {
				b.Error(err)
				return 0
			}
			if len(line) == 2 {
				break
			}
			if status == 0 {
				status, _ = strconv.Atoi(string(line[9:12]))
			}
			if v, ok := strings.CutPrefix(string(line), "Content-Length: "); ok {
				length, _ = strconv.Atoi(strings.TrimSpace(v))
			}
		}
		_, _ = in.Discard(length)
		return status
	}
	dial := func() (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		return c, bufio.NewReader(c)
	}
	c, in := dial()
	item := `{"id":"1","pk":"a","x":"` + strings.Repeat("x", 1000) + `"}`
	ask(c, in, text(post, "/dbs", `{"id":"d"}`, nil))
	ask(c, in, text(post, "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]}}`, nil))
	ask(c, in, text(post, docs, item, pk))
	c.Close()
	upsert := m{"x-ms-documentdb-partitionkey": `["a"]`, "x-ms-documentdb-is-upsert": "true"}
	for name, request := range map[string]string{
		"read": text(get, docs+"/1", "", pk), "upsert": text(post, docs, item, upsert),
	} {
		b.Run(name, func(b *testing.B) {
			var left atomic.Int64
			left.Store(int64(b.N))
			var before, after syscall.Rusage
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
			done := make(chan bool)
			for range 16 {
				go func() {
					c, in := dial()
					for left.Add(-1) >= 0 {
						if status := ask(c, in, request); status/100 != 2 {
							b.Errorf("status %d", status)
							break
						}
					}
					c.Close()
					done <- true
				}()
			}
			for range 16 {
				<-done
			}
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
			cpu := func(r *syscall.Rusage) int64 { return r.Utime.Nano() + r.Stime.Nano() }
			b.ReportMetric(float64(cpu(&after)-cpu(&before))/1e3/float64(b.N), "cpu-us/op")
		})
	}
}
