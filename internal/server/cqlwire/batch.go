// SPDX-License-Identifier: Apache-2.0

package cqlwire

import "github.com/ilion-db/ilion/internal/model/dberr"

// BatchStatement is a statement of BATCH. If ID is not nil, it is a prepared statement. Otherwise, it is a text.
type BatchStatement struct {
	Text, ID []byte
	// Values and Unset have the meaning of the fields in Params.
	Values [][]byte
	Unset  []bool
}

// Batch is the body of BATCH. Decode reuses the slices of a Batch.
type Batch struct {
	// Kind is 0 for logged, 1 for unlogged, and 2 for counter.
	Kind       uint8
	Statements []BatchStatement
	Options

	// values and unset hold the memory for Values and Unset of all statements.
	values [][]byte
	unset  []bool
}

// Decode decodes a body. The result refers to the body.
func (b *Batch) Decode(body []byte, version uint8) error {
	c := cursor{b: body}
	*b = Batch{
		Kind: c.u8(), Statements: b.Statements[:0], Options: Options{Serial: dberr.Serial},
		values: b.values[:0], unset: b.unset[:0],
	}
	if b.Kind > 2 {
		return dberr.Protocolf("Invalid BATCH type %d", b.Kind)
	}
	for range c.count(5) {
		if !b.decodeStatement(&c, version) {
			return c.err
		}
	}
	b.Consistency = c.consistency()
	b.Options.decode(&c, c.flags(version), version)
	return c.err
}

func (b *Batch) decodeStatement(c *cursor, version uint8) bool {
	var s BatchStatement
	switch kind := c.u8(); kind {
	case 0:
		s.Text = c.longStr()
	case 1:
		if s.ID = c.str(); s.ID == nil {
			s.ID = []byte{}
		}
	default:
		c.fail(dberr.Protocolf("Invalid query kind in BATCH messages. Must be 0 or 1 but got %d", kind))
	}
	n := c.count(4)
	values, unset := len(b.values), len(b.unset)
	b.values, b.unset = c.boundValues(version, n, b.values, nil, b.unset)
	s.Values = b.values[values:len(b.values):len(b.values)]
	s.Unset = b.unset[unset:len(b.unset):len(b.unset)]
	b.Statements = append(b.Statements, s)
	return c.err == nil
}
