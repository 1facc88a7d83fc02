// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"encoding/binary"
	"fmt"
)

// EntriesMax is the size of a response, in bytes, above which a node adds no further entries.
const EntriesMax = 8 << 20

// Entries is the response to a request for log entries. It holds as many entries as fit into a response.
type Entries struct {
	// Status reports the progress for each range of FileRequest.Entries, in the same order. Ranges without a status
	// must be requested again.
	Status []EntryStatus `json:"got"`
	// data holds the commands. Each command consists of the partition, the index, and the length as uvarints, followed
	// by the bytes.
	data []byte
}

// EntryStatus reports that the response includes all commands up to an index, or that the node does not have the
// commands.
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

// Full reports whether the response has reached EntriesMax.
func (e *Entries) Full() bool { return len(e.data) >= EntriesMax }

// Append appends the encoded response.
func (e *Entries) Append(dst []byte) ([]byte, error) { return appendHeaded(dst, e, e.data) }

// DecodeEntries reads the output of Append.
func DecodeEntries(b []byte) (*Entries, error) {
	e := new(Entries)
	var err error
	e.data, err = splitHead(b, e)
	return e, err
}

// Each calls fn for each command. The commands of one partition are in order. The commands point into the decoded
// bytes.
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
