// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"errors"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/query/container"
)

// order is a request to the leader. It requests the execution of a stored procedure or of an operation with triggers.
type order struct {
	id            string
	args          []byte
	log           bool
	op            container.Operation
	before, after []string
}

// orderVersion is the version of an order and of its result.
const orderVersion = 1

var errMalformed = errors.New("malformed script request")

func (q *order) append(dst []byte) []byte {
	w := codec.Writer(append(dst, orderVersion))
	w.EndFields()
	w.Text(q.id)
	w.Bytes(q.args)
	w.Flag(q.log)
	w.Byte(byte(q.op.Kind))
	w.Text(q.op.ID)
	w.Null(q.op.Body)
	w.Text(q.op.IfMatch)
	w.Text(q.op.IfNoneMatch)
	for _, list := range [][]string{q.before, q.after} {
		w.Uint(uint64(len(list)))
		for _, id := range list {
			w.Text(id)
		}
	}
	return w
}

// version reads and checks the version of a record.
func version(r *codec.Reader) error {
	if v := r.Byte(); v > orderVersion {
		return &feature.Newer{What: "a script request", Unit: "version", Has: uint64(v), Newest: orderVersion}
	}
	for f := r.Field(0); f.Number != 0; f = r.Field(f.Number) {
		if f.Must {
			return &feature.Newer{What: "a script request", Unit: "field", Has: f.Number}
		}
	}
	return r.Err()
}

func decodeOrder(src []byte) (q order, err error) {
	r := codec.NewReader(src, errMalformed)
	if err := version(&r); err != nil {
		return q, err
	}
	q.id, q.args, q.log = r.Text(), r.Bytes(), r.Flag()
	q.op = container.Operation{Kind: container.Kind(r.Byte()), ID: r.Text(), Body: r.Null(), IfMatch: r.Text(),
		IfNoneMatch: r.Text()}
	for _, list := range []*[]string{&q.before, &q.after} {
		for range r.Count(1) {
			*list = append(*list, r.Text())
		}
	}
	return q, r.End()
}

func (x *Executed) append(dst []byte) []byte {
	w := codec.Writer(append(dst, orderVersion))
	w.EndFields()
	w.Null(x.Body)
	w.Text(x.Log)
	w.Uint(uint64(x.Status))
	w.Text(x.Etag)
	return w
}

func decodeExecuted(src []byte) (*Executed, error) {
	r := codec.NewReader(src, errMalformed)
	if err := version(&r); err != nil {
		return nil, err
	}
	x := &Executed{Body: r.Null(), Log: r.Text(), Status: int(r.UpTo(999)), Etag: r.Text()}
	return x, r.End()
}

// leader is an execution on the leader. It implements Items with the items of a transaction.
type leader struct {
	service *Service
	t       *container.Transaction
	order   order
	call    Call
	out     Executed
	// ids maps the resource IDs that the scripts have received to item IDs.
	ids map[string]string
	// writes counts the writes of the scripts. bytes counts the bytes that the scripts have read.
	writes, writesMax, bytes int
}

// A script's operations that exceed these limits are not accepted. The limits are lower than the limits of a
// transaction. See partition.TransactionBounds.
const (
	changesMax   = 1800
	readBytesMax = 12 << 20
)

// Accepts implements Items.
func (l *leader) Accepts() bool { return l.writes < l.writesMax && l.bytes < readBytesMax }

var kinds = map[Kind]container.Kind{Create: container.Create, Read: container.Read, Replace: container.Replace,
	Upsert: container.Upsert, Delete: container.Delete}

// seen implements Item for an item that a script has received.
type seen struct {
	*container.Current
	leader *leader
}

// JSON implements Item.
func (s *seen) JSON() []byte { return s.Body }

// System implements Item. It records the resource ID, because the script may use the resource ID to refer to the item.
func (s *seen) System() document.System {
	system := s.Item().System()
	s.leader.ids[system.RID] = s.ID
	return system
}

// systemBytes is the approximate size of an item's system members.
const systemBytes = 256

// Do implements Items.
func (l *leader) Do(ctx context.Context, op *Operation) (Item, *Failure) {
	o := container.Operation{Kind: kinds[op.Kind], ID: op.ID, Body: op.Body, IfMatch: op.IfMatch,
		IfNoneMatch: op.IfNoneMatch}
	if op.RID != "" {
		id, failure := l.idOf(ctx, op.RID)
		if failure != nil {
			return nil, failure
		}
		o.ID = id
	}
	if op.Kind != Read {
		l.writes++
	}
	item, bad := l.t.Do(ctx, &o)
	if bad != nil && bad.Status == 304 {
		return nil, nil
	}
	if bad != nil {
		return nil, l.failure(bad)
	}
	if item == nil {
		return nil, nil
	}
	l.bytes += len(item.Body) + systemBytes
	return &seen{item, l}, nil
}

// failure converts an error. An error that is not specific to an item ends the transaction.
func (l *leader) failure(e *container.Error) *Failure {
	f := &Failure{Status: e.Status, SubStatus: e.SubStatus, Message: e.Message}
	switch e.Status {
	case 400, 403, 404, 409, 412, 413:
	default:
		f.Fatal = true
	}
	return f
}

// idOf finds the ID of the item with a given resource ID. It first searches the recorded resource IDs and then runs a
// query.
func (l *leader) idOf(ctx context.Context, rid string) (string, *Failure) {
	if id, ok := l.ids[rid]; ok {
		return id, nil
	}
	page, bad := l.t.Query(ctx, &container.QueryRequest{Text: "SELECT VALUE c.id FROM c WHERE c._rid = @rid",
		Parameters: []container.Parameter{{Name: "@rid", Value: document.AppendString(nil, rid)}}})
	if bad != nil {
		return "", l.failure(bad)
	}
	if len(page.Documents) == 0 {
		return "", &Failure{Status: 404, Message: "Entity with the specified resource id does not exist in the system."}
	}
	return document.View(page.Documents[0]).Str(), nil
}

// Query implements Items.
func (l *leader) Query(ctx context.Context, q *Query) (*Page, *Failure) {
	request := &container.QueryRequest{Text: q.Text, Continuation: q.Continuation, MaxItems: q.PageSize,
		Functions: l.service.Functions(l.t.Container())}
	for _, p := range q.Parameters {
		request.Parameters = append(request.Parameters, container.Parameter{Name: p.Name, Value: p.Value})
	}
	page, bad := l.t.Query(ctx, request)
	if bad != nil {
		return nil, l.failure(bad)
	}
	for _, text := range page.Documents {
		l.bytes += len(text)
		v := document.View(text)
		if rid, id := v.Get("_rid"), v.Get("id"); rid.Kind() == document.String && id.Kind() == document.String {
			l.ids[rid.Str()] = id.Str()
		}
	}
	return &Page{Documents: page.Documents, Continuation: page.Continuation}, nil
}
