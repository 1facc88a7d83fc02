// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// FuzzConnection checks that no input from a client causes a panic. The connection must continue or end, and all
// resources must be released when it ends.
func FuzzConnection(f *testing.F) {
	for _, version := range []uint8{cqlwire.V4, cqlwire.V5} {
		for _, name := range []string{"", "lz4"} {
			var w cqlwire.Writer
			put := func(op cqlwire.Opcode, body []byte) {
				w.Begin(cqlwire.Header{Version: version, Opcode: op})
				w.Buf = append(w.Buf, body...)
				w.End()
			}
			s := cqlwire.Startup{"CQL_VERSION": "3.0.0"}
			if name != "" {
				s["COMPRESSION"] = name
			}
			put(cqlwire.OpOptions, nil)
			put(cqlwire.OpStartup, cqlwire.AppendStartup(nil, s))
			if name != "" {
				w.SetFraming(version == cqlwire.V5, cqlwire.LZ4)
			} else {
				w.SetFraming(version == cqlwire.V5, cqlwire.NoCompression)
			}
			for _, text := range []string{"x", "long", "early", "fail t"} {
				q := cqlwire.Query{Text: []byte(text)}
				q.Values = [][]byte{make([]byte, 3000)}
				put(cqlwire.OpQuery, q.Append(nil, version))
			}
			put(cqlwire.OpPrepare, (&cqlwire.Prepare{Text: []byte("p")}).Append(nil, version))
			put(cqlwire.OpBatch, (&cqlwire.Batch{Statements: []cqlwire.BatchStatement{{Text: []byte("b")}}}).Append(nil,
				version))
			w.Finish()
			f.Add(w.Buf)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var srv *Server
		srv = New(func(session.Client) Session { return &fuzzSession{fake{srv: srv}} }, Options{FrameBytesMax: 1 << 20})
		server, client := net.Pipe()
		c := newConn(srv, server, nil)
		done := make(chan struct{})
		go func() { defer close(done); _ = c.serve() }()
		read := make(chan struct{})
		go func() { defer close(read); _, _ = io.Copy(io.Discard, client) }()
		_, _ = client.Write(data)
		client.Close()
		<-done
		<-read
		srv.Close()
		if st := srv.Stats(); st.InFlight.Load() != 0 || st.InFlightBytes.Load() != 0 || st.Working.Load() != 0 {
			t.Fatalf("left: %d in flight, %d bytes, %d working", st.InFlight.Load(), st.InFlightBytes.Load(),
				st.Working.Load())
		}
	})
}

// fuzzSession omits requests that never complete, and limits large requests.
type fuzzSession struct{ fake }

func (s *fuzzSession) Query(ctx context.Context, call *session.Call) session.Status {
	call.Request.Values = call.Request.Values[:min(len(call.Request.Values), len(blobs)-1)]
	switch text := string(call.Request.Text); text {
	case "x", "long", "early", "fail t":
		return s.fake.Query(ctx, call)
	}
	return session.Done
}

func (s *fuzzSession) Execute(context.Context, *session.Call) session.Status { return session.Done }
func (s *fuzzSession) Batch(context.Context, *session.Call) session.Status   { return session.Done }
