// SPDX-License-Identifier: Apache-2.0

package cqlwire

import (
	"math"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// These are the flags of query parameters. The flags are an int in version 5 and a byte in versions 3 and 4.
const (
	flagValues       = 0x01
	flagSkipMetadata = 0x02
	flagPageSize     = 0x04
	flagPagingState  = 0x08
	flagSerial       = 0x10
	flagTimestamp    = 0x20
	flagNames        = 0x40
	flagKeyspace     = 0x80  // only in version 5
	flagNow          = 0x100 // only in version 5
)

// NoPaging is the page size of a request for all rows in one response.
const NoPaging = -1

// Options holds the parameters that QUERY, EXECUTE, and BATCH share.
type Options struct {
	Consistency dberr.Consistency
	// Serial is dberr.Serial unless HasSerial is set.
	Serial    dberr.Consistency
	HasSerial bool
	// Timestamp is the timestamp of the request in microseconds. Timestamp is valid if HasTimestamp is set.
	Timestamp    int64
	HasTimestamp bool
	// Keyspace is nil if it is not specified. It exists only in version 5.
	Keyspace []byte
	// Now is the current time of the client in seconds. Now is valid if HasNow is set, which is possible only in
	// version 5.
	Now    int32
	HasNow bool
}

// Params holds the parameters of QUERY and EXECUTE.
type Params struct {
	Options
	SkipMetadata bool
	// PageSize is NoPaging if it is not specified.
	PageSize    int32
	PagingState []byte
	// Values holds the bound values. A nil value is null or unset.
	Values [][]byte
	// Unset is empty if no value is unset. Otherwise, it has the same length as Values.
	Unset []bool
	// Names is empty if the values have no names. Otherwise, it has the same length as Values.
	Names [][]byte
}

// reset clears p but keeps its slices.
func (p *Params) reset() {
	*p = Params{
		Options: Options{Serial: dberr.Serial}, PageSize: NoPaging,
		Values: p.Values[:0], Unset: p.Unset[:0], Names: p.Names[:0],
	}
}

// Query is the body of QUERY. Decode reuses the slices of a Query.
type Query struct {
	Text []byte
	Params
}

// Decode decodes a body. The result refers to the body.
func (q *Query) Decode(body []byte, version uint8) error {
	c := cursor{b: body}
	q.Text = c.longStr()
	q.Params.decode(&c, version)
	return c.err
}

// Prepare is the body of PREPARE.
type Prepare struct {
	Text []byte
	// Keyspace is nil if it is not specified. It exists only in version 5.
	Keyspace []byte
}

// Decode decodes a body. The result refers to the body.
func (p *Prepare) Decode(body []byte, version uint8) error {
	c := cursor{b: body}
	*p = Prepare{Text: c.longStr()}
	if version >= V5 && c.i32()&1 != 0 {
		p.Keyspace = c.str()
	}
	return c.err
}

// Execute is the body of EXECUTE. Decode reuses the slices of an Execute.
type Execute struct {
	ID []byte
	// ResultMetadataID identifies the columns that the client has cached. It exists only in version 5.
	ResultMetadataID []byte
	Params
}

// Decode decodes a body. The result refers to the body.
func (e *Execute) Decode(body []byte, version uint8) error {
	c := cursor{b: body}
	e.ID = c.str()
	e.ResultMetadataID = nil
	if version >= V5 {
		e.ResultMetadataID = c.str()
	}
	e.Params.decode(&c, version)
	return c.err
}

func (p *Params) decode(c *cursor, version uint8) {
	p.reset()
	p.Consistency = c.consistency()
	flags := c.flags(version)
	if flags&flagValues != 0 {
		if flags&flagNames != 0 {
			n := c.count(6)
			p.Values, p.Unset = c.boundValues(version, n, p.Values, &p.Names, p.Unset)
		} else {
			n := c.count(4)
			p.Values, p.Unset = c.boundValues(version, n, p.Values, nil, p.Unset)
		}
	}
	p.SkipMetadata = flags&flagSkipMetadata != 0
	if flags&flagPageSize != 0 {
		if p.PageSize = c.i32(); p.PageSize == 0 && c.err == nil {
			c.fail(&dberr.Protocol{Message: "The page size cannot be 0"})
		}
	}
	if flags&flagPagingState != 0 {
		p.PagingState = c.bytes()
	}
	p.Options.decode(c, flags, version)
}

// decode decodes the options that follow flags. The consistency level has already been decoded.
func (o *Options) decode(c *cursor, flags uint32, version uint8) {
	if flags&flagSerial != 0 {
		o.Serial, o.HasSerial = c.consistency(), true
	}
	if flags&flagTimestamp != 0 {
		o.Timestamp, o.HasTimestamp = c.i64(), true
		if o.Timestamp == math.MinInt64 {
			c.fail(dberr.Protocolf("Out of bound timestamp, must be in [%d, %d] (got %d)", int64(math.MinInt64+1),
				int64(math.MaxInt64), o.Timestamp))
		}
	}
	if version < V5 {
		return
	}
	if flags&flagKeyspace != 0 {
		o.Keyspace = c.str()
	}
	if flags&flagNow != 0 {
		o.Now, o.HasNow = c.i32(), true
	}
}

func (c *cursor) flags(version uint8) uint32 {
	if version >= V5 {
		return uint32(c.i32())
	}
	return uint32(c.u8())
}

func (c *cursor) consistency() dberr.Consistency {
	v := dberr.Consistency(c.u16())
	if v > dberr.LocalOne {
		c.fail(dberr.Protocolf("Unknown code %d for a consistency level", uint16(v)))
	}
	return v
}
