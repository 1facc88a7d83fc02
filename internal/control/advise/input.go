// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"encoding/json"
	"time"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// Input is what is known of a table.
type Input struct {
	Table      *schema.Table
	Throughput schema.Throughput
	// Physical is the number of its physical partitions.
	Physical int
	// Samples are those that were looked at, each once.
	Samples []Sample
	// Shapes are the scans that the table was asked for, each once.
	Shapes []Shape
	// Traffic is that of all nodes.
	Traffic Traffic
}

// Sample is what the leader of a physical partition knows of it.
type Sample struct {
	Partition uint64 `json:"partition"`
	// DiskBytes is its size on disk, Logical the number of its logical partitions.
	DiskBytes uint64  `json:"disk_bytes"`
	Logical   float64 `json:"logical"`
	storage.Sample
	// Writes and Conditions were served since this leader opened the partition: a condition counts as a write, too,
	// whether or not it was met. Units are the request units of everything.
	Writes     uint64  `json:"writes"`
	Conditions uint64  `json:"conditions"`
	Units      float64 `json:"units"`
}

// Shape is a kind of read that finds its partitions along the ring and not by their keys, or that filters the rows of
// those whose keys it gives: the same columns restricted in the same way. Counts are those of all nodes together.
type Shape struct {
	// Text is the WHERE clause with the values left out; empty for a read of the whole table.
	Text string `json:"text"`
	// Index is the index that is read, Equal are the columns that are compared with one value.
	Index string   `json:"index,omitempty"`
	Equal []string `json:"equal,omitempty"`
	// Keyed is true if it gives its partition keys.
	Keyed bool `json:"keyed,omitempty"`
	// Count is how many there were, Rows how many rows they returned, Units what they cost in request units.
	Count uint64  `json:"count"`
	Rows  uint64  `json:"rows"`
	Units float64 `json:"units"`
}

// Part is what one node contributes to an Input.
type Part struct {
	Samples []Sample `json:"samples,omitempty"`
	Shapes  []Shape  `json:"shapes,omitempty"`
}

// Encode is a part as it goes from node to node.
func (p *Part) Encode() ([]byte, error) { return json.Marshal(p) }

// DecodePart reads what Encode wrote.
func DecodePart(b []byte) (p Part, err error) {
	err = json.Unmarshal(b, &p)
	return p, err
}

// Add joins what a node contributes to the rest. A partition that two leaders tell of counts once.
func (in *Input) Add(p *Part) {
	for _, s := range p.Samples {
		if !in.has(s.Partition) {
			in.Samples = append(in.Samples, s)
		}
	}
	for _, s := range p.Shapes {
		in.addShape(s)
	}
}

func (in *Input) has(partition uint64) bool {
	for i := range in.Samples {
		if in.Samples[i].Partition == partition {
			return true
		}
	}
	return false
}

func (in *Input) addShape(s Shape) {
	for i := range in.Shapes {
		if have := &in.Shapes[i]; have.Text == s.Text {
			have.Count, have.Rows, have.Units = have.Count+s.Count, have.Rows+s.Rows, have.Units+s.Units
			return
		}
	}
	in.Shapes = append(in.Shapes, s)
}

// The bounds of what a sample of a table may have, for all physical partitions together.
const (
	spotsMax     = 64
	runMax       = 2048
	heavyMax     = 32
	bytesMax     = 64 << 20
	rowsKeptMost = 1024
	rowsKeptLess = 64
	// wellKept partitions have all rows that were kept, keptMax a few, and the others none.
	wellKept = 4
	keptMax  = 256
)

// SurveyOptions divide what may be read of a table by the physical partitions that a node leads: however many there
// are, about 2,048 logical partitions by chance, 32 by their size, and 64 MiB are looked at.
func SurveyOptions(led int, now time.Time) storage.SampleOptions {
	led = max(led, 1)
	o := storage.SampleOptions{Spots: max(spotsMax/led/4, 2), HeavySpots: max(heavyMax/led, 2), RowsKept: rowsKeptMost,
		Bytes: max(bytesMax/int64(led), 1<<18), Now: now.Unix()}
	o.Run = max(runMax/led/o.Spots, 1)
	return o
}

// Trim drops rows of a sample that would say little, so that it can be sent: all rows are kept of the partitions that
// are largest.
func (p *Part) Trim() {
	var sizes []*storage.SampledPartition
	for i := range p.Samples {
		for j := range p.Samples[i].Partitions {
			sizes = append(sizes, &p.Samples[i].Partitions[j])
		}
	}
	sortBySize(sizes)
	for i, s := range sizes {
		switch {
		case i >= keptMax:
			s.Kept = nil
		case i >= wellKept:
			s.Kept = thinned(s.Kept, rowsKeptLess)
		}
	}
}

// thinned keeps up to most rows at even distances, which stand for all.
func thinned(rows []storage.SampledRow, most int) []storage.SampledRow {
	if len(rows) <= most {
		return rows
	}
	out := make([]storage.SampledRow, most)
	for i := range out {
		begin, end := i*len(rows)/most, (i+1)*len(rows)/most
		out[i] = rows[begin]
		out[i].Weight = 0
		for _, r := range rows[begin:end] {
			out[i].Weight += r.Weight
		}
	}
	return out
}
