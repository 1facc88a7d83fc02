// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/trace"
	"github.com/ilion-db/ilion/internal/query/write"
)

// tracer stores traces where clients look for them. It uses the product's own statements.
type tracer struct {
	engine         *Engine
	session, event *statement
}

// traceTTL is how long traces are kept, in seconds; Cassandra's default.
const traceTTL = "86400"

func (t *tracer) init(e *Engine) (err error) {
	t.engine = e
	if t.session, err = e.parse([]byte("INSERT INTO system_traces.sessions (session_id, client, command, coordinator, coordinator_port, duration, parameters, request, started_at) "+
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) USING TTL "+traceTTL), ""); err != nil {
		return err
	}
	t.event, err = e.parse([]byte("INSERT INTO system_traces.events (session_id, event_id, activity, source, source_elapsed, source_port, thread) VALUES (?, ?, ?, ?, ?, ?, ?) USING TTL "+traceTTL), "")
	return err
}

// doneChannel is told of a completion.
type doneChannel chan struct{}

// Completed passes it on.
func (d doneChannel) Completed() { d <- struct{}{} }

// Written passes it on; a trace that could not be stored is no reason to fail its request.
func (d doneChannel) Written(*write.Outcome) { d <- struct{}{} }

// traced runs a request and stores its trace before it answers, so that the client finds it.
func (s *Session) traced(ctx context.Context, c *Call, text string, run func(context.Context, *Call) Status) Status {
	if !c.MayBlock {
		return Offload
	}
	id := s.engine.uuids.Next(s.engine.opts.Now().UnixNano())
	t := trace.New(id, s.engine.opts.Now())
	t.Add("Executing request")
	client, done := c.done, make(doneChannel, 1)
	c.CompleteTo(done)
	if run(trace.With(ctx, t), c) == Pending {
		<-done
	}
	c.CompleteTo(client)
	t.Add("Request complete")
	c.Result.TraceID, c.Result.HasTrace = id, true
	s.engine.tracer.store(ctx, t, s.client, text, c.Request.Consistency, int(c.Request.PageSize))
	return Done
}

// store writes a trace: the events, then the session with its duration, which tells clients that the trace is complete.
func (t *tracer) store(ctx context.Context, tr *trace.Trace, client Client, text string, level dberr.Consistency, page int) {
	source := t.engine.catalog.Info().RPC
	port := binary.BigEndian.AppendUint32(nil, uint32(source.Port()))
	events := tr.Events()
	var last time.Duration
	for _, ev := range events {
		last = ev.At.Sub(tr.Started)
		id := t.engine.uuids.Next(ev.At.UnixNano())
		t.write(ctx, t.event, [][]byte{tr.ID[:], id[:], []byte(ev.Activity), address(source.Addr()),
			binary.BigEndian.AppendUint32(nil, uint32(last.Microseconds())), port, []byte("request")})
	}
	parameters := [][2]string{{"consistency_level", level.String()}, {"query", text}}
	if page > 0 {
		parameters = slices.Insert(parameters, 1, [2]string{"page_size", strconv.Itoa(page)})
	}
	t.write(ctx, t.session, [][]byte{tr.ID[:], address(client.Remote.Addr()), []byte("QUERY"), address(source.Addr()), port,
		binary.BigEndian.AppendUint32(nil, uint32(last.Microseconds())), textMap(parameters), []byte("Execute CQL3 query"),
		binary.BigEndian.AppendUint64(nil, uint64(tr.Started.UnixMilli()))})
}

func (t *tracer) write(ctx context.Context, st *statement, values [][]byte) {
	var r write.Request
	r.Values, r.Level = values, dberr.One
	r.Now, r.UUIDs = t.engine.opts.Now(), t.engine.uuids
	done := make(doneChannel, 1)
	t.engine.writes.Execute(ctx, st.write, &r, done)
	<-done
}

// address is the wire form of an inet; null if it is not known.
func address(a netip.Addr) []byte {
	if !a.IsValid() {
		return nil
	}
	return a.Unmap().AsSlice()
}

// textMap is the wire form of a map<text, text>; keys come sorted.
func textMap(entries [][2]string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(entries)))
	for _, e := range entries {
		b = cqltype.AppendValue(cqltype.AppendValue(b, []byte(e[0])), []byte(e[1]))
	}
	return b
}
