// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/catalog"
	"github.com/ilion-db/ilion/internal/query/cql/roles"
	"github.com/ilion-db/ilion/internal/query/cql/write"
	"github.com/ilion-db/ilion/internal/route/coordinator"
)

// isCIDRGroups reports whether a table is system_auth.cidr_groups. Clients can write to no other virtual table.
func isCIDRGroups(t *schema.Table) bool {
	return t.Keyspace == "system_auth" && t.Name == "cidr_groups"
}

// runCIDRGroups executes an INSERT, UPDATE, or DELETE of CIDR groups. It converts the mutation to a role change.
func (s *Session) runCIDRGroups(ctx context.Context, c *Call, st *statement, began time.Time) Status {
	who, err := s.subject()
	if who == nil || err != nil {
		if err == nil {
			err = catalog.CheckWritable(st.tables[0])
		}
		return c.Result.Fail(err)
	}
	r := write.Request{Level: c.Request.Consistency, Serial: c.Request.Serial, Timestamp: began.UnixMicro(),
		HasTimestamp: true}
	if err := s.bindingsFor(&r.Bindings, st, &c.Request, began); err != nil {
		return c.Result.Fail(err)
	}
	groups := groupWriter{store: s.engine.opts.Roles, actor: who.Name, column: st.tables[0].Column("cidrs").ID,
		now: began.Unix()}
	done := make(outcome, 1)
	write.NewExecutor(groups, write.Options{}).Execute(ctx, st.write, &r, done)
	o := <-done
	c.Result.fillOutcome(&o)
	return Done
}

// outcome is a write.Completion that delivers the outcome on a channel.
type outcome chan write.Outcome

// Written implements write.Completion.
func (o outcome) Written(w *write.Outcome) { o <- *w }

// groupWriter is a write.Coordinator that applies the mutations of CIDR groups.
type groupWriter struct {
	store  roles.Store
	actor  string
	column uint32
	now    int64
}

// Write implements write.Coordinator.
func (g groupWriter) Write(ctx context.Context, ms []command.Mutation, _ coordinator.WriteOptions,
	done command.Completion) {
	for i := range ms {
		change, err := g.change(&ms[i])
		if err == nil {
			_, err = g.store.ApplyRoles(ctx, change, g.actor)
		}
		if err != nil {
			done.Done(command.Failed(err))
			return
		}
	}
	done.Done(command.Outcome{})
}

// ConditionalWrite implements write.Coordinator.
func (groupWriter) ConditionalWrite(_ context.Context, _ *command.Conditional, _ coordinator.WriteOptions,
	done command.Completion) {
	done.Done(command.Failed(dberr.Invalidf("Conditions are not supported by table system_auth.cidr_groups")))
}

// change converts a mutation into the change of one group.
func (g groupWriter) change(m *command.Mutation) (access.Change, error) {
	c := &access.SetGroup{Name: string(m.Key)}
	for _, op := range m.Ops {
		if op.Kind != command.OpRow {
			continue // the mutation deletes the group
		}
		var r row.Row
		if _, err := r.Resolve(op.Operand, row.NotDeleted, g.now, nil); err != nil {
			return nil, err
		}
		cell := r.Cell(g.column)
		if cell == nil && r.Live {
			return nil, dberr.Invalidf("A CIDR group must have a value for cidrs")
		}
		if cell != nil {
			var err error
			if c.CIDRs, err = prefixes(cell.Value); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// prefixes decodes a valid value of catalog.CIDRType.
func prefixes(wire []byte) ([]netip.Prefix, error) {
	value := func() (v []byte) {
		if len(wire) < 4 {
			return nil
		}
		n := int(int32(binary.BigEndian.Uint32(wire)))
		if wire = wire[4:]; n > 0 && n <= len(wire) {
			v, wire = wire[:n], wire[n:]
		}
		return v
	}
	if len(wire) < 4 {
		return nil, nil
	}
	count := binary.BigEndian.Uint32(wire)
	wire = wire[4:]
	var out []netip.Prefix
	for range count {
		tuple, rest := value(), wire
		wire = tuple
		addr, ok := netip.AddrFromSlice(value())
		bits := value()
		wire = rest
		if !ok || len(bits) != 2 {
			return nil, dberr.Invalidf("A CIDR must consist of an address and a prefix length")
		}
		p := netip.PrefixFrom(addr, int(int16(binary.BigEndian.Uint16(bits))))
		if !p.IsValid() {
			return nil, dberr.Invalidf("Invalid CIDR %s/%d", addr, int16(binary.BigEndian.Uint16(bits)))
		}
		out = append(out, p.Masked())
	}
	return out, nil
}
