// SPDX-License-Identifier: Apache-2.0

package cql

import (
	"crypto/md5"
	"errors"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/session"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// encode appends the response to r to the output. The caller must hold mu.
func (o *output) encode(r *request) {
	res := &r.Result
	o.charges.add(res.Charge)
	err := res.Err
	if err == nil {
		err = o.checkResponse(len(res.Cells))
	}
	h := cqlwire.Header{Stream: r.h.Stream, Opcode: cqlwire.OpResult}
	if err != nil {
		h.Opcode = cqlwire.OpError
		o.srv.stats.Errors.Add(1)
		if _, many := errors.AsType[*dberr.Overloaded](err); many {
			o.charges.refused++
		}
	}
	if !res.HasTrace && res.Warnings == nil && len(res.Payload) == 0 {
		o.begin(h)
	} else {
		p := o.prefix(res)
		h.Flags = p.Flags(o.version)
		o.begin(h)
		o.w.Buf = cqlwire.AppendPrefix(o.w.Buf, o.version, &p)
	}
	if err != nil {
		o.w.Buf = appendFailure(o.w.Buf, o.version, err)
	} else {
		o.enlarge(len(res.Cells) + metadataRoom)
		o.w.Buf = appendResult(o.w.Buf, o.version, r)
	}
	o.w.End()
	o.account()
}

// metadataRoom is the space, in bytes, that suffices for the metadata of most results. Larger metadata grows the
// buffer.
const metadataRoom = 4 << 10

func appendFailure(dst []byte, version uint8, err error) []byte {
	if e, ok := errors.AsType[*unknownID](err); ok {
		return cqlwire.AppendUnprepared(dst, e.id)
	}
	return cqlwire.AppendError(dst, version, err)
}

// prefix returns the data that precedes a result. The data is valid until the next call. The caller must hold mu.
func (o *output) prefix(res *session.Result) cqlwire.Prefix {
	o.payload = o.payload[:0]
	for _, e := range res.Payload {
		o.payload = append(o.payload, cqlwire.PayloadEntry(e))
	}
	return cqlwire.Prefix{TraceID: res.TraceID, HasTrace: res.HasTrace, Warnings: res.Warnings, Payload: o.payload}
}

func appendResult(dst []byte, version uint8, r *request) []byte {
	res := &r.Result
	switch res.Kind {
	case session.Rows:
		return appendRows(dst, version, r)
	case session.SetKeyspace:
		return cqlwire.AppendSetKeyspace(dst, res.Keyspace)
	case session.SchemaChanged:
		change := cqlwire.SchemaChange(res.Change)
		return cqlwire.AppendSchemaChangeResult(dst, version, &change)
	case session.PreparedStatement:
		return appendPrepared(dst, version, res.Prepared)
	default:
		return cqlwire.AppendVoid(dst)
	}
}

func appendRows(dst []byte, version uint8, r *request) []byte {
	res := &r.Result
	m := res.Metadata
	h := cqlwire.RowsHeader{Columns: len(m.Columns), Rows: res.RowCount, PagingState: res.PagingState}
	changed := version >= cqlwire.V5 && r.h.Opcode == cqlwire.OpExecute && string(r.metadataID) != string(m.ID[:])
	switch {
	case res.AlwaysMetadata:
		// METADATA_CHANGED is not set. The next result has other columns, so the client must not cache these columns.
		h.Block = block(m, version)
	case changed:
		h.Block, h.ChangedID = block(m, version), m.ID[:]
	case !r.skipMetadata:
		h.Block = block(m, version)
	}
	return cqlwire.AppendRows(dst, &h, res.Cells)
}

// block returns the encoded columns. It encodes each version only once.
func block(m *session.Metadata, version uint8) cqlwire.ColumnsBlock {
	slot := cqlwire.BlockSlot(version)
	if b := m.Encoded(slot); b != nil {
		return b
	}
	b := cqlwire.AppendColumnsBlock(nil, version, columns(m.Columns))
	m.SetEncoded(slot, b)
	return b
}

func columns(l []session.Column) []cqlwire.Column {
	out := make([]cqlwire.Column, len(l))
	for i, c := range l {
		out[i] = cqlwire.Column(c)
	}
	return out
}

// noColumnsID is the metadata ID of statements without rows.
var noColumnsID = md5.Sum(nil)

func appendPrepared(dst []byte, version uint8, p *session.Prepared) []byte {
	h := cqlwire.PreparedHeader{ID: p.ID[:], ResultMetadataID: noColumnsID[:], Bind: columns(p.Bind),
		PKIndexes: p.PKIndexes}
	if p.Result != nil {
		h.ResultMetadataID = p.Result.ID[:]
		h.Result = columns(p.Result.Columns)
	}
	return cqlwire.AppendPrepared(dst, version, &h)
}
