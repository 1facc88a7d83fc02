// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// EventKind is the kind of a change to a physical partition.
type EventKind uint8

// These are the kinds of events. Records contain the values.
const (
	// Split means that Other was split off from Partition.
	Split EventKind = iota + 1
	// Merge means that Other was merged into Partition.
	Merge
	// Move means that a replica of Partition moved from node From to node To.
	Move
)

var eventKinds = [...]string{"", "split", "merge", "move"}

// String returns the name of the kind in lower case.
func (k EventKind) String() string {
	if int(k) < len(eventKinds) {
		return eventKinds[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// EventsKept is the maximum number of events in the metadata. Older events are deleted.
const EventsKept = 1000

// Event is a completed split, merge, or move.
type Event struct {
	// Number is the number of the event, in ascending order from 1.
	Number    uint64
	Kind      EventKind
	Table     uint32
	Partition topology.PartitionID
	// Other is the other partition of a split or merge, or 0 for a move.
	Other topology.PartitionID
	// From and To are the nodes of a move. From is zero if a replica was added, and To is zero if a replica was
	// removed.
	From, To topology.NodeID
	topology.Reason
	// Abandoned reports whether the change was canceled.
	Abandoned bool
	// Ended is the time at which the topology recorded the end of the change, in milliseconds since the epoch.
	Ended int64
	// Bytes is the number of bytes moved, or the size on the leader's disk before a split or merge. It is 0 if the size
	// is unknown.
	Bytes uint64
	// Pause is the time for which some keys could not be written, or 0 if the time is unknown. For a split, these keys
	// are the keys of the new partition. The pause begins with the proposal of the log entry and ends with the update
	// of the topology. Pause is stored in microseconds.
	Pause time.Duration
}

// Duration returns the duration of the change. It is never negative, even if the clocks of nodes differ.
func (e *Event) Duration() time.Duration {
	return max(time.Duration(e.Ended-e.Began)*time.Millisecond, 0)
}

// Outcome returns the result of the change as one word.
func (e *Event) Outcome() string {
	if e.Abandoned {
		return "abandoned"
	}
	return "done"
}

// WithEvent returns a state with an additional event. It assigns the event's number.
func (s *State) WithEvent(e Event) *State {
	e.Number = 1
	if n := len(s.History); n > 0 {
		e.Number = s.History[n-1].Number + 1
	}
	next := *s
	next.History = append(slices.Clone(s.History[max(0, len(s.History)+1-EventsKept):]), &e)
	return &next
}

const eventFormat = 1

// Append appends the encoded event without its number.
func (e *Event) Append(dst []byte) []byte {
	w := codec.Writer(append(dst, eventFormat, byte(e.Kind)))
	w.Uint(uint64(e.Table))
	w.Uint(uint64(e.Partition))
	w.Uint(uint64(e.Other))
	w.Raw(e.From[:])
	w.Raw(e.To[:])
	w.Byte(byte(e.Cause))
	w.Flag(e.Abandoned)
	w.Int(e.Began)
	w.Int(e.Ended)
	w.Uint(e.Bytes)
	w.Uint(uint64(e.Pause / time.Microsecond))
	w.EndFields()
	return w
}

// DecodeEvent decodes an event that this version or a later version of Append has written. The error is ErrMalformed or
// *feature.Newer. DecodeEvent drops fields of later versions, because events are never rewritten.
func DecodeEvent(number uint64, src []byte) (*Event, error) {
	if len(src) == 0 || src[0] < eventFormat {
		return nil, ErrMalformed
	}
	if src[0] > eventFormat {
		return nil, &feature.Newer{What: "an event record", Unit: "format", Has: uint64(src[0]),
			Newest: eventFormat}
	}
	r := codec.NewReader(src[1:], ErrMalformed)
	e := &Event{Number: number, Kind: EventKind(r.Byte()), Table: r.Uint32(),
		Partition: topology.PartitionID(r.Uint()), Other: topology.PartitionID(r.Uint())}
	copy(e.From[:], r.Take(uint64(len(e.From))))
	copy(e.To[:], r.Take(uint64(len(e.To))))
	e.Cause, e.Abandoned = topology.Cause(r.Byte()), r.Flag()
	e.Began, e.Ended, e.Bytes = r.Int(), r.Int(), r.Uint()
	e.Pause = time.Duration(r.UpTo(math.MaxInt64/uint64(time.Microsecond))) * time.Microsecond
	for f := r.Field(0); f.Number != 0; f = r.Field(f.Number) {
		if f.Must {
			return nil, &feature.Newer{What: "an event record", Unit: "field", Has: f.Number}
		}
	}
	return e, r.End()
}

func eventKey(number uint64) string {
	return string(binary.BigEndian.AppendUint64([]byte(historyPrefix), number))
}

// nextHistory decodes new events.
func (s *State) nextHistory(records map[string][]byte, changed []string) ([]*Event, error) {
	i, _ := slices.BinarySearch(changed, historyPrefix)
	out := s.History
	for shared := true; i < len(changed) && strings.HasPrefix(changed[i], historyPrefix); i++ {
		id := changed[i][len(historyPrefix):]
		if len(id) != 8 {
			return nil, fmt.Errorf("key %q: %w", changed[i], ErrMalformed)
		}
		number := binary.BigEndian.Uint64([]byte(id))
		if shared {
			out, shared = slices.Clone(out), false
		}
		at, known := slices.BinarySearchFunc(out, number, func(e *Event, number uint64) int {
			return cmp.Compare(e.Number, number)
		})
		value := records[changed[i]]
		if known && value == nil {
			out = slices.Delete(out, at, at+1)
		}
		if value == nil {
			continue
		}
		e, err := DecodeEvent(number, value)
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", number, err)
		}
		if known {
			out[at] = e
		} else {
			out = slices.Insert(out, at, e)
		}
	}
	return out, nil
}

// history adds the records of new events and deletes the records of old events.
func (d *diff) history(s, next *State) {
	for _, e := range next.History {
		if n := len(s.History); n == 0 || e.Number > s.History[n-1].Number {
			d.put(eventKey(e.Number), e.Append(nil))
		}
	}
	for _, e := range s.History {
		if len(next.History) > 0 && e.Number >= next.History[0].Number {
			break
		}
		d.delete(eventKey(e.Number))
	}
}

// InProgress returns the pending split, merge, or moves of a partition as events that have not ended. It returns a
// merge only for the left partition. Leaving and joining replicas are paired to moves. InProgress returns nil if no
// change is pending.
func InProgress(p *topology.Partition) []Event {
	e := Event{Table: p.Table, Partition: p.ID}
	if p.Reason != nil {
		e.Reason = *p.Reason
	}
	if p.Split != nil {
		e.Kind, e.Other = Split, p.Split.Child
		return []Event{e}
	}
	if j := p.Merge; j != nil {
		if j.Left != p.ID {
			return nil
		}
		e.Kind, e.Other = Merge, j.Right
		return []Event{e}
	}
	var came, gone []topology.NodeID
	for i := range p.Sets {
		for _, r := range p.Sets[i].Replicas {
			switch r.State {
			case topology.Joining:
				came = append(came, r.Node)
			case topology.Leaving:
				gone = append(gone, r.Node)
			}
		}
	}
	return Moves(e, came, gone)
}

// Moves returns copies of e for added and removed replicas. If both added and removed replicas exist, Moves pairs them.
func Moves(e Event, came, gone []topology.NodeID) []Event {
	var out []Event
	e.Kind = Move
	for i := range max(len(came), len(gone)) {
		e.From, e.To = topology.NodeID{}, topology.NodeID{}
		if i < len(gone) {
			e.From = gone[i]
		}
		if i < len(came) {
			e.To = came[i]
		}
		out = append(out, e)
	}
	return out
}
