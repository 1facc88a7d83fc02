// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"encoding/binary"
	"errors"
	"io"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/trace"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// Read executes c on the other replica and passes the result to v (see partition.Replica.Read). If v stops early, Read
// notifies the other node and drops the remaining pages. The last page confirms all rows that v has received (RM3).
// Read returns an error when its context ends.
func (r *Replica) Read(ctx context.Context, c *command.Read, v command.Visitor) error {
	t := trace.From(ctx)
	p := r.c.reads.Get().(*pageReader)
	p.begin(c, v)
	err := r.read(ctx, c, p, t)
	if err == nil {
		ru.Tell(v, p.Price(c))
		if to, ok := v.(partition.Borrower); ok && p.lent > 0 {
			to.Lent(p.lent)
		}
	}
	p.end()
	r.c.reads.Put(p)
	return err
}

func (r *Replica) read(ctx context.Context, c *command.Read, p *pageReader, t *trace.Trace) error {
	ctx, cancel := r.c.bounded(ctx)
	defer cancel()
	request := r.c.buffers.get()
	*request = appendHead(r.appendRelayHead(*request), kindRead, r.id, t)
	mark := r.c.marks.Add(1)
	*request = command.AppendRead(binary.AppendUvarint(*request, mark), c)
	s, err := r.c.t.Stream(ctx, r.firstHop(), *request)
	r.c.buffers.put(request)
	if err != nil {
		return lost(err)
	}
	defer s.Close()
	told := false
	for {
		b, err := s.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = ErrMalformed // the last page is missing
			}
			return lost(err)
		}
		a, err := open(b, t)
		if err != nil {
			return err
		}
		last, err := p.take(&a)
		switch {
		case p.failure != nil:
			return p.failure
		case a.Err() != nil:
			return unreadable(a.Err())
		case last:
			if e := a.close(t); e != nil {
				return e
			}
			return err
		case p.over && !told:
			told = true
			r.cancel(mark)
		}
	}
}

// cancel requests the other node to stop a read. If the message is lost, the read continues until it is complete or
// reaches its time limit.
func (r *Replica) cancel(mark uint64) {
	request := r.c.buffers.get()
	defer r.c.buffers.put(request)
	*request = binary.AppendUvarint(appendHead(r.appendRelayHead(*request), kindCancel, r.id, nil), mark)
	ctx, cancel := r.c.sched.WithTimeout(context.Background(), Wait)
	defer cancel()
	if s, err := r.c.t.Stream(ctx, r.firstHop(), *request); err == nil {
		defer s.Close()
	}
}
