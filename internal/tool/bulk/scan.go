// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/bulk/pipeline"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

// PageRows is the number of rows per page. pageBytes is the target size of a page with large rows. Servers other than
// Ilion limit pages only by rows.
const (
	PageRows  = 1000
	pageBytes = 4 << 20
	// firstRows is the number of rows per page while their size is unknown.
	firstRows = 10
)

// TokenRange is a range of tokens. It contains the tokens above Above up to and including Last.
type TokenRange struct{ Above, Last int64 }

// Ring divides the token ring into n ranges of equal length. n must be between 1 and 65536.
func Ring(n int) []TokenRange {
	l := make([]TokenRange, n)
	step := math.MaxUint64/uint64(n) + 1
	for i := range l {
		l[i] = TokenRange{int64(uint64(i)*step) + math.MinInt64, int64(uint64(i+1)*step-1) + math.MinInt64}
		if i > 0 {
			l[i].Above--
		}
	}
	l[n-1].Last = math.MaxInt64
	return l
}

// Where returns the WHERE clause that restricts a query of the table to the range.
func (r TokenRange) Where(t *Table) string {
	return fmt.Sprintf(" WHERE %s > %d AND %s <= %d", t.TokenOf(), r.Above, t.TokenOf(), r.Last)
}

// Reader reads pages over one connection. It opens the connection on first use and reopens it after a failure.
type Reader struct {
	Client Client
	Addr   string
	conn   *rawclient.Conn
}

// Close closes the connection.
func (r *Reader) Close() {
	if r.conn != nil {
		r.conn.Close()
	}
}

// Pages executes a query and calls f with each page of its result. If the server rejects the request, times out, or
// closes the connection, Pages requests the page again. It does so up to Client.Retries times.
func (r *Reader) Pages(ctx context.Context, text string, f func(*cqlwire.Result) error) error {
	q := cqlwire.Query{Text: []byte(text)}
	q.Consistency, q.PageSize = r.Client.Consistency, firstRows
	for {
		res, err := r.page(ctx, &q)
		if err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		if err := f(res); err != nil {
			return err
		}
		if q.PagingState = res.PagingState; q.PagingState == nil {
			return nil
		}
		q.PageSize = PageRows
		if n := len(res.Cells); n > 0 {
			q.PageSize = int32(min(PageRows, max(1, pageBytes*res.RowCount/n)))
		}
	}
}

func (r *Reader) page(ctx context.Context, q *cqlwire.Query) (*cqlwire.Result, error) {
	for tries := 1; ; tries++ {
		res, err := r.ask(ctx, q)
		if err == nil {
			return res, nil
		}
		e, answered := errors.AsType[*cqlwire.Error](err)
		if !answered {
			r.Close()
			r.conn = nil
		}
		worth := !answered || pipeline.Refused(err) || e.Code == cqlwire.CodeReadTimeout ||
			e.Code == cqlwire.CodeReadFailure
		if !worth || tries > r.Client.Retries {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pipeline.Backoff(tries)):
		}
	}
}

func (r *Reader) ask(ctx context.Context, q *cqlwire.Query) (*cqlwire.Result, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	c, err := r.Conn(ctx)
	if err != nil {
		return nil, err
	}
	op, body, err := c.Call(cqlwire.OpQuery, q.Append(nil, cqlwire.V4))
	if err != nil {
		return nil, err
	}
	if op != cqlwire.OpResult {
		return nil, fmt.Errorf("unexpected response %v", op)
	}
	return cqlwire.DecodeResult(body, cqlwire.V4)
}

// Conn returns the connection, over which the caller can make single calls.
func (r *Reader) Conn(ctx context.Context) (*rawclient.Conn, error) {
	if r.conn != nil {
		return r.conn, nil
	}
	c, err := rawclient.Dial(ctx, r.Addr, r.Client.Options)
	r.conn = c
	return c, err
}
