// SPDX-License-Identifier: Apache-2.0

package write

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
)

// target is the row to which changes.apply applies operations.
type target struct {
	group      *group
	clustering []byte
	stamp      *stamp
	b          *expr.Bindings
}

// apply adds an operation to the operand of a row.
func (x *changes) apply(o *operation, t *target) error {
	into := &x.row
	if o.column.Kind == schema.Static {
		into = &x.header
	}
	if o.kind == setCell { // the most frequent operation
		return x.setCell(o, t, into)
	}
	if x.guard != nil {
		if err := x.checkListGuardrails(o); err != nil {
			return err
		}
	}
	switch o.kind {
	case deleteColumn:
		if !row.OneCell(o.column.Type) {
			into.DeleteColumn(o.column.ID, 0, t.stamp.at)
		} else {
			into.Tombstone(o.column.ID, nil, t.stamp.at)
		}
		return nil
	case deleteField:
		into.Tombstone(o.column.ID, o.path, t.stamp.at)
		return nil
	case setElement, deleteElement:
		return x.applyElement(o, t, into)
	case setListElement, deleteListElement:
		return x.applyListIndex(o, t)
	}
	v, state, err := o.value.Eval(t.b)
	if err != nil || state == expr.Unset {
		return err
	}
	switch o.kind {
	case setCells:
		into.DeleteColumn(o.column.ID, -1, t.stamp.at)
		return x.addAll(o, t, into, v)
	case addElements, appendElements, prependElements:
		return x.addAll(o, t, into, v)
	case removeElements:
		if v != nil {
			for _, e := range o.value.Type().Elements(v) {
				into.Tombstone(o.column.ID, x.arena.path(o.column.Type.Elems[0], e), t.stamp.at)
			}
		}
		return nil
	case setField:
		if v == nil {
			into.Tombstone(o.column.ID, o.path, t.stamp.at)
		} else {
			into.Cell(o.column.ID, o.path, v, t.stamp.ttl, t.stamp.expiry)
		}
		return nil
	}
	return x.applyReadModify(o, t, v)
}

// setCell sets a single-cell column. If the value is null, setCell deletes the cell.
func (x *changes) setCell(o *operation, t *target, into *row.Builder) error {
	v, state, err := o.value.Eval(t.b)
	if err != nil || state == expr.Unset {
		return err
	}
	if state == expr.Null {
		into.Tombstone(o.column.ID, nil, t.stamp.at)
		return nil
	}
	if x.guard != nil {
		if err := x.checkValueGuardrails(o.column, v); err != nil {
			return err
		}
	}
	into.Cell(o.column.ID, nil, v, t.stamp.ttl, t.stamp.expiry)
	if o.keyed {
		x.viewKeyValues = append(x.viewKeyValues, viewKeyValue{o.column, x.arena.keep(v)})
	}
	for _, ix := range o.indexes {
		if err := x.addIndexValue(t.group, ix, t.clustering, v); err != nil {
			return err
		}
	}
	return nil
}

// applyElement sets or deletes the element with a given key.
func (x *changes) applyElement(o *operation, t *target, into *row.Builder) error {
	k, state, err := o.key.Eval(t.b)
	if err != nil {
		return err
	}
	if state != expr.Value {
		what := "map key"
		if o.column.Type.Kind == cqltype.Set {
			what = "set element"
		}
		if state == expr.Unset {
			return dberr.Invalidf("Invalid unset %s", what)
		}
		return dberr.Invalidf("Invalid null %s", what)
	}
	path := x.arena.path(o.column.Type.Elems[0], k)
	if o.kind == deleteElement {
		into.Tombstone(o.column.ID, path, t.stamp.at)
		return nil
	}
	v, state, err := o.value.Eval(t.b)
	switch {
	case err != nil || state == expr.Unset:
		return err
	case state == expr.Null:
		into.Tombstone(o.column.ID, path, t.stamp.at)
		return nil
	}
	if x.guard != nil {
		if err := x.guard.Value(o.column.Name, len(v)); err != nil {
			return err
		}
	}
	into.Cell(o.column.ID, path, v, t.stamp.ttl, t.stamp.expiry)
	return x.addElementEntries(t.group, o, t.clustering, k, v)
}

// addAll adds the elements of a collection or the fields of a user-defined type. A null collection has no elements.
func (x *changes) addAll(o *operation, t *target, into *row.Builder, v []byte) error {
	if v == nil {
		return nil
	}
	if x.guard != nil {
		if err := x.checkValueGuardrails(o.column, v); err != nil {
			return err
		}
	}
	typ := o.column.Type
	switch typ.Kind {
	case cqltype.Set:
		for _, e := range typ.Elements(v) {
			into.Cell(o.column.ID, x.arena.path(typ.Elems[0], e), []byte{}, t.stamp.ttl, t.stamp.expiry)
			if err := x.addElementEntries(t.group, o, t.clustering, e, nil); err != nil {
				return err
			}
		}
	case cqltype.Map:
		for k, e := range typ.Entries(v) {
			into.Cell(o.column.ID, x.arena.path(typ.Elems[0], k), e, t.stamp.ttl, t.stamp.expiry)
			if err := x.addElementEntries(t.group, o, t.clustering, k, e); err != nil {
				return err
			}
		}
	case cqltype.List:
		return x.addList(o, t, into, v)
	case cqltype.UDT:
		for i, e := range typ.Elements(v) {
			if e != nil {
				into.Cell(o.column.ID, row.FieldPath(i), e, t.stamp.ttl, t.stamp.expiry)
			}
		}
	}
	return nil
}

// addList appends or prepends list elements in order. Each element has a separate timeuuid. The timeuuids of prepended
// elements are mirrored into the past, so elements that are prepended later have smaller timeuuids.
func (x *changes) addList(o *operation, t *target, into *row.Builder, v []byte) error {
	typ := o.column.Type
	uuids := make([][16]byte, typ.Count(v))
	for i := range uuids {
		u := t.b.UUIDs.Next(t.b.Now.UnixNano())
		if o.kind == prependElements {
			uuids[len(uuids)-1-i] = mirror(u)
		} else {
			uuids[i] = u
		}
	}
	var put [][]byte
	for i, e := range typ.Elements(v) {
		path := x.arena.path(cqltype.Native(cqltype.Timeuuid), uuids[i][:])
		if o.put {
			put = append(put, path, e)
		} else {
			into.Cell(o.column.ID, path, e, t.stamp.ttl, t.stamp.expiry)
		}
		if err := x.addElementEntries(t.group, o, t.clustering, nil, e); err != nil {
			return err
		}
	}
	if len(put) > 0 {
		x.update(o, t, command.ListPut, put...)
		if o.column.Kind == schema.Static {
			x.putStatic = true
		} else {
			x.putRow = true
		}
	}
	return nil
}

// mirrorTicks is the time around which the timeuuids of prepended elements are mirrored. The time is 2010-01-01 in UUID
// time, which counts units of 100 ns since 1582-10-15.
var mirrorTicks = uint64(time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC).Unix()*1e7) + 0x01b21dd213814000

// mirror mirrors the time of a timeuuid around mirrorTicks.
func mirror(u [16]byte) [16]byte {
	ticks := uint64(binary.BigEndian.Uint32(u[0:])) | uint64(binary.BigEndian.Uint16(u[4:]))<<32 |
		uint64(binary.BigEndian.Uint16(u[6:])&0x0fff)<<48
	ticks = 2*mirrorTicks - ticks
	binary.BigEndian.PutUint32(u[0:], uint32(ticks))
	binary.BigEndian.PutUint16(u[4:], uint16(ticks>>32))
	binary.BigEndian.PutUint16(u[6:], uint16(ticks>>48)&0x0fff|0x1000)
	return u
}

// update adds an update that the leader resolves.
func (x *changes) update(o *operation, t *target, kind command.UpdateKind, args ...[]byte) {
	for i, a := range args {
		if a != nil {
			args[i] = append([]byte{}, a...)
		}
	}
	t.group.updates = append(t.group.updates, command.Update{
		Row: t.group.rowRef(o.column.Kind == schema.Static, t.clustering), Kind: kind, Column: o.column.ID,
		Type: o.column.Type, Args: args,
		Statement: x.statement, Timestamp: t.stamp.timestamp, TTL: t.stamp.ttl, Expiry: t.stamp.expiry,
	})
}

// applyListIndex sets or deletes the list element at a given index.
func (x *changes) applyListIndex(o *operation, t *target) error {
	i, state, err := o.key.Eval(t.b)
	switch {
	case err != nil:
		return err
	case state == expr.Null || state == expr.Value && len(i) == 0:
		return dberr.Invalidf("Invalid null value for list index")
	case state == expr.Unset:
		if o.kind == deleteListElement {
			return nil
		}
		return dberr.Invalidf("Invalid unset value for list index")
	}
	if o.kind == deleteListElement {
		x.update(o, t, command.ListDeleteAt, i)
		return nil
	}
	v, state, err := o.value.Eval(t.b)
	if err != nil || state == expr.Unset {
		return err
	}
	x.update(o, t, command.ListSetAt, i, v)
	if v == nil {
		return nil
	}
	return x.addElementEntries(t.group, o, t.clustering, nil, v)
}

// applyReadModify adds to a counter or number, or removes values from a list.
func (x *changes) applyReadModify(o *operation, t *target, v []byte) error {
	if o.kind == discardElements {
		if v == nil {
			return nil
		}
		var args [][]byte
		for _, e := range o.column.Type.Elements(v) {
			args = append(args, e)
		}
		if len(args) > 0 {
			x.update(o, t, command.ListDiscard, args...)
		}
		return nil
	}
	if o.kind == addValue {
		return x.applyAdd(o, t, v)
	}
	delta, ok := cqltype.Native(cqltype.Bigint).Kind.Int64(v)
	if !ok {
		return dberr.Invalidf("Invalid null value for counter increment")
	}
	if o.kind == subtractCounter {
		if delta == math.MinInt64 {
			return dberr.Invalidf("The negation of %d overflows supported counter precision (signed 8 bytes integer)",
				delta)
		}
		delta = -delta
	}
	wire, _ := cqltype.Native(cqltype.Bigint).Kind.FromInt64(delta)
	x.update(o, t, command.CounterAdd, wire)
	return nil
}

// applyAdd adds an update that adds a value to a number or text.
func (x *changes) applyAdd(o *operation, t *target, v []byte) error {
	if v == nil && (o.column.Type.Kind == cqltype.Text || o.column.Type.Kind == cqltype.Ascii) {
		return dberr.Invalidf("Invalid null value for string append")
	}
	if v == nil {
		return dberr.Invalidf("Invalid null value for number increment")
	}
	args := [][]byte{v}
	for _, ix := range o.indexes {
		arg := binary.BigEndian.AppendUint32(nil, ix.ID)
		if ix.form.Ordered() {
			arg = binary.BigEndian.AppendUint32(arg, expr.IndexFormMax)
		}
		args = append(args, arg)
	}
	x.update(o, t, command.SumAdd, args...)
	return nil
}
