// SPDX-License-Identifier: Apache-2.0

package advise

import (
	"time"

	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// Input is the available data about a table.
type Input struct {
	Table      *schema.Table
	Throughput schema.Throughput
	// Physical is the number of physical partitions of the table.
	Physical int
	// Samples contains one sample for each physical partition.
	Samples []Sample
	// Shapes are the kinds of scans of the table, without duplicates.
	Shapes []Shape
	// Traffic is the usage on all nodes.
	Traffic Traffic
}

// Sample is the sample of a physical partition. The leader of the partition takes the sample.
type Sample struct {
	Partition uint64 `json:"partition"`
	// DiskBytes is the size on disk, and Logical is the number of logical partitions.
	DiskBytes uint64  `json:"disk_bytes"`
	Logical   float64 `json:"logical"`
	storage.Sample
	// Writes and Conditions count writes and conditional writes since this leader opened the partition. A conditional
	// write also counts as a write, regardless of the result of its condition. Units is the cost of all requests in
	// request units.
	Writes     uint64  `json:"writes"`
	Conditions uint64  `json:"conditions"`
	Units      float64 `json:"units"`
}

// Shape is a kind of read that scans the ring or filters the rows of given partition keys. All reads of one kind
// restrict the same columns in the same way. The counts are totals of all nodes.
type Shape struct {
	// Text is the WHERE clause without values, or empty for a read of the whole table.
	Text string `json:"text"`
	// Index is the index that the reads use. Equal lists the columns that the reads compare with one value.
	Index string   `json:"index,omitempty"`
	Equal []string `json:"equal,omitempty"`
	// Keyed reports whether the reads specify partition keys.
	Keyed bool `json:"keyed,omitempty"`
	// Count is the number of reads, Rows is the number of returned rows, and Units is the cost in request units.
	Count uint64  `json:"count"`
	Rows  uint64  `json:"rows"`
	Units float64 `json:"units"`
}

// Part is the contribution of one node to an Input.
type Part struct {
	Samples []Sample `json:"samples,omitempty"`
	Shapes  []Shape  `json:"shapes,omitempty"`
}

// Add adds the contribution of a node. If two leaders report the same partition, Add uses the first report.
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

// These are the limits of a table's sample for all physical partitions together.
const (
	spotsMax     = 64
	runMax       = 2048
	heavyMax     = 32
	bytesMax     = 64 << 20
	rowsKeptMost = 1024
	rowsKeptLess = 64
	// wellKept is the number of partitions whose sampled rows are all kept. keptMax is the number of partitions with
	// some kept rows. All other partitions have no kept rows.
	wellKept = 4
	keptMax  = 256
)

// SurveyOptions divides the sample limits by the number of physical partitions that a node leads. The total sample has
// about 2,048 random logical partitions, 32 large logical partitions, and up to 64 MiB.
func SurveyOptions(led int, now time.Time) storage.SampleOptions {
	led = max(led, 1)
	o := storage.SampleOptions{Spots: max(spotsMax/led/4, 2), HeavySpots: max(heavyMax/led, 2), RowsKept: rowsKeptMost,
		Bytes: max(bytesMax/int64(led), 1<<18), Now: now.Unix()}
	o.Run = max(runMax/led/o.Spots, 1)
	return o
}

// Trim removes less informative rows to reduce the size of the sample. The largest partitions keep all rows.
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

// thinned returns up to most evenly spaced rows, which represent all rows.
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
