// SPDX-License-Identifier: Apache-2.0

package advise

// Report is what is to be said about a table.
type Report struct {
	Table    string    `json:"table"`
	Figures  Figures   `json:"figures"`
	Findings []Finding `json:"findings"`
}

// Figures are what a table has. Those of logical partitions are estimates unless Complete.
type Figures struct {
	// PhysicalPartitions is how many there are, Surveyed at how many of them was looked.
	PhysicalPartitions int    `json:"physical_partitions"`
	Surveyed           int    `json:"surveyed"`
	DiskBytes          uint64 `json:"disk_bytes"`
	// Complete says that all rows were read. Otherwise Sampled logical partitions were looked at.
	Complete          bool    `json:"complete"`
	Sampled           int     `json:"sampled"`
	LogicalPartitions float64 `json:"logical_partitions"`
	Rows              float64 `json:"rows"`
	// MedianBytes and P99Bytes are sizes of logical partitions, Largest is the largest one, with its key in words.
	MedianBytes float64 `json:"median_bytes"`
	P99Bytes    float64 `json:"p99_bytes"`
	Largest     Size    `json:"largest"`
	LargestKey  string  `json:"largest_key"`
	// Expected is what the formulas of Cassandra's documentation make of the rows of the largest one.
	Expected Size `json:"expected"`
}

// Kind says what was found.
type Kind string

// The kinds of findings.
const (
	Large     Kind = "large"      // logical partitions of more than 10 MB, 100 MB or 100,000 values
	Unbounded Kind = "unbounded"  // logical partitions that grow for ever
	Skewed    Kind = "skewed"     // few logical partitions with much more than others
	Busy      Kind = "busy"       // a logical partition that takes much of what the table costs
	FewKeys   Kind = "few-keys"   // too few logical partitions to be spread
	SingleRow Kind = "single-row" // partitions that keep one row where several were meant
	FanOut    Kind = "fan-out"    // queries that ask all physical partitions
	Filtering Kind = "filtering"  // queries that look at many more rows of a logical partition than they return
	Condition Kind = "conditions" // many writes with IF
)

// Level says how much a finding matters.
type Level string

// The levels.
const (
	Warning Level = "warning"
	Note    Level = "note"
)

// Finding is one thing that was found.
type Finding struct {
	Kind     Kind   `json:"kind"`
	Level    Level  `json:"level"`
	Headline string `json:"headline"`
	// Evidence is never empty (AD1).
	Evidence []Fact   `json:"evidence"`
	Proposal Proposal `json:"proposal"`
	// Effect is what the proposal changes, computed from Basis.
	Effect []Change `json:"effect"`
	Basis  string   `json:"basis"`
}

// Fact is a number that was measured or estimated.
type Fact struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Unit  Unit    `json:"unit"`
}

// Unit is what a number counts.
type Unit string

// The units.
const (
	Count    Unit = "count"
	Bytes    Unit = "bytes"
	Percent  Unit = "percent"
	RU       Unit = "RU"
	RUPerSec Unit = "RU/s"
	Days     Unit = "days"
	Times    Unit = "times"
)

// Proposal is what could be done.
type Proposal struct {
	Text string `json:"text"`
	// DDL is the table as it would be declared; empty where no declaration is to change.
	DDL string `json:"ddl,omitempty"`
	// Instead are other ways, with what they would come to.
	Instead []string `json:"instead,omitempty"`
}

// Change is a number before and after.
type Change struct {
	What   string  `json:"what"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	Unit   Unit    `json:"unit"`
	// OffBy is how far After may be off, in percent; 0 if nothing of it was estimated.
	OffBy float64 `json:"off_by_percent,omitempty"`
}
