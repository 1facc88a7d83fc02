// SPDX-License-Identifier: Apache-2.0

package session

import (
	"encoding/binary"
	"math"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/model/trace"
)

// chargePayload is the key of the custom payload that reports the request charge as an 8-byte big-endian double. A
// response contains this payload if a table of the request has provisioned throughput, or if the request contains a
// payload with this key.
const chargePayload = "RequestCharge"

var chargeKey = []byte(chargePayload)

// meteredTables holds the IDs of the tables with provisioned throughput.
type meteredTables map[uint32]struct{}

func findMeteredTables(s *schema.Schema) *meteredTables {
	m := meteredTables{}
	for ks := range s.All() {
		for _, t := range ks.Tables {
			if ks.Throughput(t).Units > 0 {
				m[t.ID] = struct{}{}
			}
		}
	}
	return &m
}

func (m meteredTables) hasAny(tables []*schema.Table) bool {
	if len(m) == 0 {
		return false
	}
	for _, t := range tables {
		if _, ok := m[t.ID]; ok {
			return true
		}
	}
	return false
}

// maxChargePayload is the key of the custom payload that limits the charge of a request. The format is the same as for
// chargePayload.
const maxChargePayload = "MaxRequestCharge"

// readPayload reads the maximum charge and the priority from the custom payload of the request. It also sets
// wantsCharge.
func (c *Call) readPayload() (err error) {
	c.wantsCharge, c.maxCharge, c.lowPriority = false, 0, false
	for i := range c.Request.Payload {
		p := &c.Request.Payload[i]
		switch string(p.Key) {
		case chargePayload:
			c.wantsCharge = true
		case PriorityPayload:
			if c.lowPriority, err = IsLow(p.Value); err != nil {
				return err
			}
		case maxChargePayload:
			if len(p.Value) != 8 {
				return dberr.Invalidf("The custom payload MaxRequestCharge must be an 8-byte big-endian double, but has %d bytes",
					len(p.Value))
			}
			most := math.Float64frombits(binary.BigEndian.Uint64(p.Value))
			if !(most > 0) {
				return dberr.Invalidf("MaxRequestCharge must be greater than 0 request units, but is %v", most)
			}
			c.maxCharge = ru.Of(most)
		}
	}
	return nil
}

func (r *Result) addChargePayload(u ru.Units) {
	binary.BigEndian.PutUint64(r.chargeBytes[:], math.Float64bits(u.Float()))
	r.Payload = append(r.Payload, Payload{Key: chargeKey, Value: r.chargeBytes[:]})
}

// attachCharge adds the charge to the response if the client requested the charge or a table has provisioned
// throughput.
func (s *Session) attachCharge(c *Call, tables []*schema.Table) {
	if c.wantsCharge || (*s.engine.metered.Load()).hasAny(tables) {
		c.Result.addChargePayload(c.Result.Charge)
	}
}

func traceCharge(t *trace.Trace, u ru.Units) {
	if u > 0 {
		t.Add("Request charge: " + u.String() + " RU")
	}
}
