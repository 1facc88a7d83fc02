// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/trace"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/write"
)

// tracer stores traces in system_traces. It uses its own prepared statements.
type tracer struct {
	engine         *Engine
	session, event *statement
}

// These are the request kinds in system_traces.sessions.
const (
	traceQuery   = "Execute CQL3 query"
	traceExecute = "Execute CQL3 prepared query"
	traceBatch   = "Execute batch of CQL3 queries"
	tracePrepare = "Preparing CQL3 query"
)

const tracesKeyspace = "system_traces"

// traceTTL is the time to live of traces in seconds. The value is Cassandra's default.
const traceTTL = "86400"

func (t *tracer) init(e *Engine) (err error) {
	t.engine = e
	if t.session, err = e.parse([]byte("INSERT INTO system_traces.sessions (session_id, client, command, "+
		"coordinator, coordinator_port, duration, parameters, request, started_at) "+
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) USING TTL "+traceTTL), ""); err != nil {
		return err
	}
	t.event, err = e.parse([]byte("INSERT INTO system_traces.events (session_id, event_id, activity, source, "+
		"source_elapsed, source_port, thread) VALUES (?, ?, ?, ?, ?, ?, ?) USING TTL "+traceTTL), "")
	return err
}

// completionChannel receives completions. The capacity must be at least the number of completions.
type completionChannel chan struct{}

// Completed implements Completer.
func (d completionChannel) Completed() { d <- struct{}{} }

// Written implements write.Completion. It ignores errors, because a request must not fail if its trace cannot be
// stored.
func (d completionChannel) Written(*write.Outcome) { d <- struct{}{} }

// traceInfo describes a traced request.
type traceInfo struct {
	// request is the request kind in system_traces.sessions. text is the display text of the statement, or empty for a
	// batch message.
	request, text string
}

// traced executes a request. It stores the trace before the response is sent, so that the client can find the trace.
func (s *Session) traced(ctx context.Context, c *Call, info *traceInfo,
	run func(context.Context, *Call) Status) Status {
	if !c.MayBlock {
		return Offload
	}
	id := s.traceID()
	t := trace.New(id, s.engine.opts.Clock.Wall())
	t.Add("Executing request")
	client, done := c.done, make(completionChannel, 1)
	c.CompleteTo(done)
	if run(trace.With(ctx, t), c) == Pending {
		<-done
	}
	c.CompleteTo(client)
	traceCharge(t, c.Result.Charge)
	t.Add("Request complete")
	c.Result.TraceID, c.Result.HasTrace = id, true
	s.engine.tracer.store(ctx, t, info, s.client, &c.Request)
	return Done
}

// traceID returns a new trace ID. If authentication is on, the last six bytes identify the role. Every node can
// therefore determine the owner of a trace.
func (i *identity) traceID() [16]byte {
	id := i.engine.uuids.Next(i.engine.opts.Clock.Wall().UnixNano())
	if tag, ok := i.traceTag(); ok {
		copy(id[len(id)-len(tag):], tag[:])
	}
	return id
}

// traceTag returns the part of a trace ID that identifies the session's role record or account key. If authentication
// is off, ok is false. The multicast bit marks a node ID that is not a hardware address.
func (i *identity) traceTag() (tag [6]byte, ok bool) {
	kind := "role"
	if i.account != nil {
		kind = "account key"
	} else if i.engine.opts.Authority == nil {
		return tag, false
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %x %s", kind, i.client.Record.ID, i.client.User))
	copy(tag[:], sum[:])
	tag[0] |= 1
	return tag, true
}

// checkTraces returns an error if the client must not execute a SELECT on a trace table. Superusers and roles with the
// SELECT permission on the table may read all traces. Other roles may read only their own traces, and must specify the
// trace IDs.
func (i *identity) checkTraces(st *statement, b *expr.Bindings) error {
	who, err := i.subject()
	t := st.traces
	if err != nil || t == nil || who == nil || who.May(access.Select, access.OfTable(t.Keyspace, t.Name)) {
		return err
	}
	tag, _ := i.traceTag()
	ids, ok, err := st.read.Keys(b)
	for _, id := range ids {
		ok = ok && bytes.HasSuffix(id, tag[:])
	}
	if err == nil && !ok {
		err = dberr.Unauthorizedf("User %s can read only its own traces: specify one of their session_ids, or grant "+
			"SELECT on %s", who.Name, access.OfTable(t.Keyspace, t.Name))
	}
	return err
}

// store writes a trace. It returns after all rows of the trace have been stored.
func (t *tracer) store(ctx context.Context, tr *trace.Trace, info *traceInfo, client Client, r *Request) {
	source := client.Local
	if !source.IsValid() {
		source = t.engine.catalog.Info().RPC
	}
	port := binary.BigEndian.AppendUint32(nil, uint32(source.Port()))
	events := tr.Events()
	done := make(completionChannel, len(events)+1)
	last := time.Microsecond
	for _, ev := range events {
		// The duration must not be 0, because cqlsh treats 0 as unknown.
		last = max(last, ev.At.Sub(tr.Started))
		id := t.engine.uuids.Next(ev.At.UnixNano())
		t.write(ctx, t.event, done, [][]byte{tr.ID[:], id[:], []byte(ev.Activity), address(source.Addr()),
			binary.BigEndian.AppendUint32(nil, uint32(last.Microseconds())), port, []byte("request")})
	}
	t.write(ctx, t.session, done, [][]byte{tr.ID[:], address(client.Remote.Addr()), []byte("QUERY"),
		address(source.Addr()), port,
		binary.BigEndian.AppendUint32(nil, uint32(last.Microseconds())), textMap(parameters(info, r)),
		[]byte(info.request),
		binary.BigEndian.AppendUint64(nil, uint64(tr.Started.UnixMilli()))})
	for range len(events) + 1 {
		<-done
	}
}

func parameters(info *traceInfo, r *Request) (p [][2]string) {
	prepare := info.request == tracePrepare
	if !prepare {
		p = append(p, [2]string{"consistency_level", r.Consistency.String()})
	}
	if r.PageSize > 0 {
		p = append(p, [2]string{"page_size", strconv.Itoa(int(r.PageSize))})
	}
	if info.text != "" {
		p = append(p, [2]string{"query", info.text})
	}
	if !prepare {
		p = append(p, [2]string{"serial_consistency_level", r.Serial.String()})
	}
	return p
}

// write starts to store a row. done receives the completion of the write.
func (t *tracer) write(ctx context.Context, st *statement, done completionChannel, values [][]byte) {
	var r write.Request
	r.Values, r.Level = values, dberr.One
	r.Now, r.UUIDs = t.engine.opts.Clock.Wall(), t.engine.uuids
	t.engine.writes.Execute(ctx, st.write, &r, done)
}

// address returns the wire format of an inet, or nil if the address is invalid.
func address(a netip.Addr) []byte {
	if !a.IsValid() {
		return nil
	}
	return a.Unmap().AsSlice()
}

// textMap returns the wire format of a map<text, text>. The caller must sort the entries by key.
func textMap(entries [][2]string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(entries)))
	for _, e := range entries {
		b = cqltype.AppendValue(cqltype.AppendValue(b, []byte(e[0])), []byte(e[1]))
	}
	return b
}
