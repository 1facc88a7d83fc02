// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"encoding/binary"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/ddl"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// describeState is the length of DESCRIBE's paging state in bytes. The paging state contains the schema version and the
// index of the next row.
const describeState = 16 + 4

// runDescribe executes DESCRIBE with paging. It rejects the request if the schema has changed since the first page,
// because rows could be missing or repeated.
func (s *Session) runDescribe(_ context.Context, c *Call, st *statement, p *parser.Describe) Status {
	version := s.engine.catalog.Snapshot().Version
	rows, err := s.engine.ddl.Describe(p, st.keyspace)
	if err != nil {
		return c.Result.Fail(err)
	}
	from := 0
	if state := c.Request.PagingState; len(state) > 0 {
		if len(state) != describeState {
			return c.Result.Fail(dberr.Protocolf("Invalid value for the paging state"))
		}
		if [16]byte(state[:16]) != version {
			return c.Result.Fail(dberr.Invalidf("The schema has changed since the previous page of the DESCRIBE " +
				"statement result. Please retry the DESCRIBE statement."))
		}
		from = min(int(binary.BigEndian.Uint32(state[16:])), len(rows.Rows))
	}
	paged := c.Request.PageSize > 0
	to := len(rows.Rows)
	if paged {
		to = min(to, from+int(c.Request.PageSize))
	}
	columns := make([]Column, len(rows.Columns))
	for i, col := range rows.Columns {
		columns[i] = Column{Keyspace: ddl.DescribeKeyspace, Table: ddl.DescribeTable, Name: col.Name, Type: col.Type}
	}
	c.Result.Kind, c.Result.Metadata = Rows, NewMetadata(columns)
	for ; from < to; from++ {
		for _, v := range rows.Rows[from] {
			c.Result.Cells = cqltype.AppendValue(c.Result.Cells, v)
		}
		c.Result.RowCount++
		if size := len(c.Result.Cells); paged && size >= min(pageBytesMax, s.engine.opts.ResultBytesMax) {
			to = from + 1
		} else if size > s.engine.opts.ResultBytesMax {
			return c.Result.Fail(dberr.Invalidf("The schema exceeds %d bytes, the maximum size of an unpaged "+
				"result: set a page size, or describe a single object", s.engine.opts.ResultBytesMax))
		}
	}
	if to < len(rows.Rows) {
		c.Result.PagingState = binary.BigEndian.AppendUint32(append([]byte(nil), version[:]...), uint32(to))
	}
	return Done
}
