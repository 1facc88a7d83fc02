// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/trace"
)

// FuzzPages checks that no response of another node makes the reader panic or deliver rows that the response does not
// contain. A trace in the response must not be longer than the response.
func FuzzPages(f *testing.F) {
	r := row.Row{Live: true, Liveness: row.Liveness{Timestamp: 5, Expiry: row.NoExpiry}, Cells: []row.Cell{
		{Column: 1, Timestamp: 5, Expiry: row.NoExpiry, Value: []byte("v")},
		{Column: 3, Timestamp: 7, TTL: 9, Expiry: 99, Path: []byte{1}, Value: []byte("w")},
	}}
	page := appendPartition([]byte{version, answerTraced}, 7, []byte("key"), &r)
	page = appendRow(codec.AppendBytes(append(page, itemRow), []byte{1, 2}), &r)
	t := trace.New([16]byte{}, time.Now())
	t.Add("here")
	f.Add(appendTrace(append(page, itemEnd, 2), t))
	f.Add(appendTrace(AppendError(append(page, itemFailed), ErrMalformed), t))
	f.Fuzz(func(t *testing.T, b []byte) {
		events := trace.New([16]byte{}, time.Now())
		a, err := open(b, events)
		if err != nil {
			return
		}
		var p pageReader
		p.begin(&command.Read{}, blind{})
		if last, err := p.take(&a); last && err == nil {
			_ = a.close(events)
		}
		if n := len(events.Events()); n > len(b) || cap(p.row.Cells) > 2*len(b)+8 {
			t.Fatalf("%d events, memory for %d cells, of %d bytes", n, cap(p.row.Cells), len(b))
		}
	})
}
