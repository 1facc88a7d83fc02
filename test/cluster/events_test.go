// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/process"
)

// listener is a client of one node that is registered for all events.
type listener struct {
	f    *fleet
	m    *member
	conn *rawclient.Conn
	side *rawclient.Conn // reads the node's tables when an event arrives

	mu     sync.Mutex
	events []string
	// times holds the arrival times of the events.
	times []time.Time
}

func (m *member) listen() *listener {
	t := m.f.t
	t.Helper()
	l := &listener{f: m.f, m: m, conn: m.dial(), side: m.dial()}
	body := binary.BigEndian.AppendUint16(nil, 3)
	for _, kind := range []string{cqlwire.SchemaChangeEvent, cqlwire.StatusChange, cqlwire.TopologyChange} {
		body = append(binary.BigEndian.AppendUint16(body, uint16(len(kind))), kind...)
	}
	if op, _, err := l.conn.Call(cqlwire.OpRegister, body); err != nil || op != cqlwire.OpReady {
		t.Fatalf("REGISTER: %v %v", op, err)
	}
	go l.read()
	return l
}

// read records events until the connection ends.
func (l *listener) read() {
	for {
		var head [cqlwire.HeaderSize]byte
		if _, err := io.ReadFull(l.conn, head[:]); err != nil {
			return
		}
		h := cqlwire.ParseHeader(head[:])
		body := make([]byte, h.Length)
		if _, err := io.ReadFull(l.conn, body); err != nil {
			return
		}
		if h.Opcode != cqlwire.OpEvent || h.Stream != cqlwire.EventStream {
			l.f.t.Errorf("%s: the frame is not an event: %v on stream %d", l.m.name(), h.Opcode, h.Stream)
			return
		}
		event := l.decode(body)
		l.mu.Lock()
		l.events, l.times = append(l.events, event), append(l.times, time.Now())
		l.mu.Unlock()
	}
}

// decode decodes an event and checks that system.peers agrees with it.
func (l *listener) decode(body []byte) string {
	text := func() string {
		n := int(binary.BigEndian.Uint16(body))
		s := string(body[2 : 2+n])
		body = body[2+n:]
		return s
	}
	kind, change := text(), text()
	if kind == cqlwire.SchemaChangeEvent {
		target, name := text(), text()
		if len(body) > 0 {
			name += "." + text()
		}
		return change + " " + target + " " + name
	}
	a, _ := netip.AddrFromSlice(body[1 : 1+body[0]])
	if port := binary.BigEndian.Uint32(body[1+body[0]:]); port != cqlPort {
		l.f.t.Errorf("%s: port %d in an event", l.m.name(), port)
	}
	if err := l.check(a.String(), change); err != nil {
		l.f.t.Errorf("%s: at the event %s of %v: %v", l.m.name(), change, a, err)
	}
	return change + " " + a.String()
}

// check checks that a node's tables agree with its event about another node.
func (l *listener) check(address, change string) error {
	for _, query := range []string{
		"SELECT tokens FROM system.peers WHERE peer = '" + address + "'",
		"SELECT tokens FROM system.peers_v2 WHERE peer = '" + address + "'",
	} {
		r, err := process.Query(l.side, dberr.One, query)
		switch {
		case err != nil:
			return err
		case change == "REMOVED_NODE" && r.RowCount > 0:
			return fmt.Errorf("%s finds it", query)
		case change == "DOWN" && r.RowCount == 0:
			return nil // a decommissioned node first goes down, and may have been removed in the meantime
		case change != "REMOVED_NODE" && r.RowCount == 0:
			return fmt.Errorf("%s does not find it", query)
		case change != "REMOVED_NODE" && int32(binary.BigEndian.Uint32(r.Cells)) <= 0:
			return fmt.Errorf("%s finds no tokens", query)
		}
	}
	if change == "UP" {
		c, err := rawclient.Dial(l.f.t.Context(), fmt.Sprintf("%s:%d", address, cqlPort), rawclient.Options{})
		if err != nil {
			return fmt.Errorf("it cannot be reached: %w", err)
		}
		return c.Close()
	}
	return nil
}

// about returns the events that contain a text.
func (l *listener) about(text string) (out []string, last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, e := range l.events {
		if strings.HasSuffix(e, text) {
			out, last = append(out, e), l.times[i]
		}
	}
	return out, last
}

// isOutage reports whether an event announces that a node went down or came up. On a busy machine, such events also
// occur for a live node that other nodes briefly considered dead.
func isOutage(event string) bool {
	return strings.HasPrefix(event, "DOWN ") || strings.HasPrefix(event, "UP ")
}

// lastOutage returns the last DOWN and UP events of a node that died and returned.
func lastOutage(events []string) []string {
	for len(events) > 2 && isOutage(events[0]) && isOutage(events[1]) {
		events = events[2:]
	}
	return events
}

// hear waits until all listeners have received the expected events about a node. The last event must be DOWN or UP.
func hear(t *testing.T, f *fleet, listeners []*listener, m *member, began time.Time, want ...string) {
	t.Helper()
	var latest time.Time
	for _, l := range listeners {
		if l.m == m {
			continue
		}
		f.until(fmt.Sprintf("%s announced %v of %s", l.m.name(), want, m.name()), settleTime, func() string {
			got, at := l.about(" " + m.ip)
			last := want[len(want)-1] + " " + m.ip
			if len(got) < len(want) || !slices.Contains(got, last) || isOutage(last) && got[len(got)-1] != last {
				return fmt.Sprint(got)
			}
			if at.After(latest) {
				latest = at
			}
			return ""
		})
	}
	t.Logf("all announced %s of %s after %s", want[len(want)-1], m.name(), latest.Sub(began).Round(time.Millisecond))
}

// agreed waits until every node reports the same schema version for all nodes. agreed returns the duration of the
// wait.
func agreed(t *testing.T, listeners []*listener) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		versions := map[string]bool{}
		for _, l := range listeners {
			for _, table := range []string{"local", "peers"} {
				r, err := process.Query(l.side, dberr.One, "SELECT schema_version FROM system."+table)
				if err != nil {
					t.Fatal(err)
				}
				for b := r.Cells; len(b) >= 20; b = b[20:] {
					versions[string(b[4:20])] = true
				}
			}
		}
		if len(versions) == 1 {
			return time.Since(began)
		}
		if time.Since(began) > eventually.Limit {
			t.Fatalf("%d versions of the schema", len(versions))
		}
	}
}

// TestEvents checks that clients receive each schema change once, regardless of the node that made the change. Clients
// must also receive an event for every node that joins, dies, returns, and leaves.
func TestEvents(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 4, "")
	var listeners []*listener
	for _, m := range f.nodes {
		listeners = append(listeners, m.listen())
	}
	var want []string
	var slowest time.Duration
	for i, m := range f.nodes {
		ks := fmt.Sprintf("e%d", i)
		for _, s := range []struct{ text, events string }{
			{"CREATE KEYSPACE %s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 4}",
				"CREATED KEYSPACE %s"},
			{"CREATE TYPE %s.u (n int)", "CREATED TYPE %s.u"},
			{"CREATE TABLE %s.t (k int PRIMARY KEY, v int)", "CREATED TABLE %s.t"},
			{"ALTER TABLE %s.t ADD w int", "UPDATED TABLE %s.t"},
			{"CREATE INDEX ON %s.t (v)", "UPDATED TABLE %s.t"},
			{"ALTER TYPE %s.u ADD m int", "UPDATED TYPE %s.u"},
			{"DROP TABLE %s.t", "DROPPED TABLE %s.t"},
			{"DROP KEYSPACE %s", "DROPPED TYPE %s.u,DROPPED KEYSPACE %s"},
		} {
			m.do(fmt.Sprintf(s.text, ks))
			slowest = max(slowest, agreed(t, listeners))
			want = append(want, strings.Split(strings.ReplaceAll(s.events, "%s", ks), ",")...)
		}
	}
	t.Logf("the nodes agreed about the schema within %s", slowest.Round(time.Millisecond))
	for _, l := range listeners {
		f.until(l.m.name()+" announces all changes", settleTime, func() string {
			l.mu.Lock()
			defer l.mu.Unlock()
			if n := len(slices.DeleteFunc(slices.Clone(l.events), isOutage)); n < len(want) {
				return fmt.Sprint(l.events)
			}
			return ""
		})
	}
	fifth := f.add()
	began := time.Now()
	fifth.start()
	hear(t, f, listeners, fifth, began, "NEW_NODE", "UP")
	f.settle()

	dead := f.nodes[2]
	began = time.Now()
	dead.kill()
	listeners = slices.Delete(listeners, 2, 3)
	hear(t, f, listeners, dead, began, "DOWN")
	began = time.Now()
	dead.start()
	hear(t, f, listeners, dead, began, "DOWN", "UP")
	f.settle()

	began = time.Now()
	f.nodes[0].order("decommission", fifth.id())
	hear(t, f, listeners, fifth, began, "NEW_NODE", "UP", "REMOVED_NODE")
	<-fifth.ended
	for _, l := range listeners {
		l.mu.Lock()
		var schema []string
		for _, e := range l.events {
			if strings.HasSuffix(e, " "+fifth.ip) || strings.HasSuffix(e, " "+dead.ip) || isOutage(e) {
				continue
			}
			schema = append(schema, e)
		}
		l.mu.Unlock()
		if !slices.Equal(schema[:min(len(schema), len(want))], want) {
			t.Errorf("%s announced the changes\n%q, want\n%q", l.m.name(), schema, want)
		}
		for _, e := range schema[min(len(schema), len(want)):] {
			t.Logf("%s also announced: %s", l.m.name(), e)
		}
		got, _ := l.about(" " + fifth.ip)
		// The process may end before the metadata states that the node has left.
		got = slices.DeleteFunc(got, func(e string) bool { return e == "DOWN "+fifth.ip })
		got = slices.Compact(got) // other nodes may briefly have considered the node dead
		if !slices.Equal(got, []string{"NEW_NODE " + fifth.ip, "UP " + fifth.ip, "REMOVED_NODE " + fifth.ip}) {
			t.Errorf("%s announced of the fifth node: %q", l.m.name(), got)
		}
		got, _ = l.about(" " + dead.ip)
		if !slices.Equal(lastOutage(got), []string{"DOWN " + dead.ip, "UP " + dead.ip}) {
			t.Errorf("%s announced of the dead node: %q", l.m.name(), got)
		}
	}
}
