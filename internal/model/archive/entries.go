// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"encoding/binary"
	"fmt"
)

// EntriesMax is from how many bytes on a node sends no further entries with one answer.
const EntriesMax = 8 << 20

// Entries are what a node has of the entries that were asked for, as many as fit into an answer.
type Entries struct {
	// Got says how far each of Asked.Wanted was answered, in that order; those that are missing are to be asked for
	// again.
	Status []EntryStatus `json:"got"`
	// data has the commands: partition, index, length (uvarints), bytes.
	data []byte
}

// Got says that all commands up to an index are there, or that the node does not have them.
type EntryStatus struct {
	Upto    uint64 `json:"upto,omitempty"`
	Missing bool   `json:"gone,omitempty"`
}

// Add adds a command of an entry.
func (e *Entries) Add(partition, index uint64, command []byte) {
	e.data = binary.AppendUvarint(e.data, partition)
	e.data = binary.AppendUvarint(e.data, index)
	e.data = binary.AppendUvarint(e.data, uint64(len(command)))
	e.data = append(e.data, command...)
}

// Full reports whether the answer has enough.
func (e *Entries) Full() bool { return len(e.data) >= EntriesMax }

// Append appends the answer as it is sent.
func (e *Entries) Append(dst []byte) ([]byte, error) { return appendHeaded(dst, e, e.data) }

// DecodeEntries reads what Append wrote.
func DecodeEntries(b []byte) (*Entries, error) {
	e := new(Entries)
	var err error
	e.data, err = splitHead(b, e)
	return e, err
}

// Each passes the commands on, those of one partition in order. They point into what was decoded.
func (e *Entries) Each(fn func(partition, index uint64, command []byte) error) error {
	for rest := e.data; len(rest) > 0; {
		var v [3]uint64
		for i := range v {
			n := 0
			if v[i], n = binary.Uvarint(rest); n <= 0 {
				return fmt.Errorf("entries: %w", ErrDamaged)
			}
			rest = rest[n:]
		}
		if v[2] > uint64(len(rest)) {
			return fmt.Errorf("entries: %w", ErrDamaged)
		}
		if err := fn(v[0], v[1], rest[:v[2]]); err != nil {
			return err
		}
		rest = rest[v[2]:]
	}
	return nil
}
