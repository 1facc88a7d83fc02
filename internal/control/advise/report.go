// SPDX-License-Identifier: Apache-2.0

package advise

// Report is the advice on a table.
type Report struct {
	Table    string    `json:"table"`
	Figures  Figures   `json:"figures"`
	Findings []Finding `json:"findings"`
}

// Figures are the sizes of a table. The sizes of logical partitions are estimates unless Complete is set.
type Figures struct {
	// PhysicalPartitions is the number of physical partitions, and Surveyed is the number of sampled partitions.
	PhysicalPartitions int    `json:"physical_partitions"`
	Surveyed           int    `json:"surveyed"`
	DiskBytes          uint64 `json:"disk_bytes"`
	// Complete reports whether all rows were read. If it is false, Sampled is the number of sampled logical partitions.
	Complete          bool    `json:"complete"`
	Sampled           int     `json:"sampled"`
	LogicalPartitions float64 `json:"logical_partitions"`
	Rows              float64 `json:"rows"`
	// MedianBytes and P99Bytes are percentiles of the sizes of logical partitions. Largest is the size of the largest
	// partition, and LargestKey is the readable key of this partition.
	MedianBytes float64 `json:"median_bytes"`
	P99Bytes    float64 `json:"p99_bytes"`
	Largest     Size    `json:"largest"`
	LargestKey  string  `json:"largest_key"`
	// Expected is the result of the formulas in Cassandra's documentation for the rows of the largest partition.
	Expected Size `json:"expected"`
}

// Kind is the kind of a finding.
type Kind string

// These are the kinds of findings.
const (
	Large     Kind = "large"      // logical partitions above 10 MB, 100 MB, or 100,000 values
	Unbounded Kind = "unbounded"  // logical partitions that grow without limit
	Skewed    Kind = "skewed"     // a few logical partitions that are much larger than the other partitions
	Busy      Kind = "busy"       // a logical partition that causes much of the table's cost
	FewKeys   Kind = "few-keys"   // too few logical partitions for an even distribution
	SingleRow Kind = "single-row" // partitions that keep one row instead of several
	FanOut    Kind = "fan-out"    // queries that read all physical partitions
	Filtering Kind = "filtering"  // queries that examine many more rows than they return
	Condition Kind = "conditions" // many writes with IF
)

// Level is the severity of a finding.
type Level string

// These are the levels of findings.
const (
	Warning Level = "warning"
	Note    Level = "note"
)

// Finding is a problem of a table.
type Finding struct {
	Kind     Kind   `json:"kind"`
	Level    Level  `json:"level"`
	Headline string `json:"headline"`
	// Evidence is never empty (AD1).
	Evidence []Fact   `json:"evidence"`
	Proposal Proposal `json:"proposal"`
	// Effect holds the changes that the proposal causes. Basis describes the data from which Effect was computed.
	Effect []Change `json:"effect"`
	Basis  string   `json:"basis"`
}

// Fact is a measured or estimated number.
type Fact struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Unit  Unit    `json:"unit"`
}

// Unit is the unit of a number.
type Unit string

// These are the units of numbers.
const (
	Count    Unit = "count"
	Bytes    Unit = "bytes"
	Percent  Unit = "percent"
	RU       Unit = "RU"
	RUPerSec Unit = "RU/s"
	Days     Unit = "days"
	Times    Unit = "times"
)

// Proposal is a proposed change.
type Proposal struct {
	Text string `json:"text"`
	// DDL is the declaration of the proposed table, or empty if the proposal changes no declaration.
	DDL string `json:"ddl,omitempty"`
	// Instead lists alternatives with their effects.
	Instead []string `json:"instead,omitempty"`
}

// Change is a number before and after a change.
type Change struct {
	What   string  `json:"what"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	Unit   Unit    `json:"unit"`
	// OffBy is the possible error of After in percent, or 0 if After is exact.
	OffBy float64 `json:"off_by_percent,omitempty"`
}
