// SPDX-License-Identifier: Apache-2.0

package cqlwire

// ResultKind is the type of a RESULT.
type ResultKind int32

// These are the types of RESULT.
const (
	ResultVoid         ResultKind = 1
	ResultRows         ResultKind = 2
	ResultSetKeyspace  ResultKind = 3
	ResultPrepared     ResultKind = 4
	ResultSchemaChange ResultKind = 5
)

// AppendVoid appends the body of a RESULT without content.
func AppendVoid(dst []byte) []byte { return appendI32(dst, int32(ResultVoid)) }

// AppendSetKeyspace appends the body of the RESULT for USE.
func AppendSetKeyspace(dst []byte, keyspace string) []byte {
	return appendString(appendI32(dst, int32(ResultSetKeyspace)), keyspace)
}

// RowsHeader is the part of a RESULT before its rows.
type RowsHeader struct {
	// Columns is the number of columns. Rows is the number of rows.
	Columns, Rows int
	// Block describes the columns. If Block is nil, the description is omitted.
	Block ColumnsBlock
	// ChangedID is the new ID of columns that differ from the columns that the client has cached (version 5). It is
	// nil if the columns do not differ. If ChangedID is not nil, Block must not be nil.
	ChangedID []byte
	// PagingState is nil on the last page.
	PagingState []byte
}

// AppendRows appends the body of a RESULT with rows. cells contains Rows times Columns values in the encoding [bytes].
func AppendRows(dst []byte, h *RowsHeader, cells []byte) []byte {
	flags := int32(0)
	if h.Block == nil {
		flags |= metaNone
	} else {
		flags |= int32(h.Block[0])
	}
	if h.PagingState != nil {
		flags |= metaMorePages
	}
	if h.ChangedID != nil {
		flags |= metaChanged
	}
	dst = appendI32(dst, int32(ResultRows))
	dst = appendI32(dst, flags)
	dst = appendI32(dst, int32(h.Columns))
	if h.PagingState != nil {
		dst = AppendBytes(dst, h.PagingState)
	}
	if h.ChangedID != nil {
		dst = appendString(dst, h.ChangedID)
	}
	if h.Block != nil {
		dst = append(dst, h.Block[1:]...)
	}
	dst = appendI32(dst, int32(h.Rows))
	return append(dst, cells...)
}

// PreparedHeader is the content of the RESULT of PREPARE.
type PreparedHeader struct {
	ID []byte
	// ResultMetadataID identifies the columns of the rows. It exists only in version 5.
	ResultMetadataID []byte
	Bind             []Column
	// PKIndexes lists the positions in Bind of the partition key components. It exists in version 4 and later.
	PKIndexes []uint16
	// Result describes the rows if the columns of the result are known in advance.
	Result []Column
}

// AppendPrepared appends the body of the RESULT of PREPARE.
func AppendPrepared(dst []byte, version uint8, p *PreparedHeader) []byte {
	dst = appendI32(dst, int32(ResultPrepared))
	dst = appendString(dst, p.ID)
	if version >= V5 {
		dst = appendString(dst, p.ResultMetadataID)
	}
	s := getScratch()
	defer putScratch(s)

	s.b = AppendColumnsBlock(s.b[:0], version, p.Bind)
	dst = appendI32(dst, int32(s.b[0]))
	dst = appendI32(dst, int32(len(p.Bind)))
	if version >= V4 {
		dst = appendI32(dst, int32(len(p.PKIndexes)))
		for _, i := range p.PKIndexes {
			dst = appendU16(dst, i)
		}
	}
	dst = append(dst, s.b[1:]...)

	if len(p.Result) == 0 {
		dst = appendI32(dst, metaNone)
		return appendI32(dst, 0)
	}
	s.b = AppendColumnsBlock(s.b[:0], version, p.Result)
	dst = appendI32(dst, int32(s.b[0]))
	dst = appendI32(dst, int32(len(p.Result)))
	return append(dst, s.b[1:]...)
}

// SchemaChange is the content of the RESULT of a DDL statement and of the corresponding EVENT.
type SchemaChange struct {
	Change   string // CREATED, UPDATED, or DROPPED
	Target   string // KEYSPACE, TABLE, TYPE, FUNCTION, or AGGREGATE
	Keyspace string
	// Name is the name of the changed object in its keyspace. Name is empty if Target is KEYSPACE.
	Name string
	// Args lists the argument types of a function or aggregate.
	Args []string
}

// AppendSchemaChangeResult appends the body of the RESULT for a DDL statement.
func AppendSchemaChangeResult(dst []byte, version uint8, c *SchemaChange) []byte {
	return appendSchemaChange(appendI32(dst, int32(ResultSchemaChange)), version, c)
}

func appendSchemaChange(dst []byte, version uint8, c *SchemaChange) []byte {
	dst = appendString(dst, c.Change)
	function := c.Target == "FUNCTION" || c.Target == "AGGREGATE"
	if function && version < V4 {
		// Version 3 does not support this target. Report a change of the keyspace instead, as Cassandra does.
		dst = appendString(dst[:len(dst)-len(c.Change)-2], "UPDATED")
		dst = appendString(dst, "KEYSPACE")
		return appendString(dst, c.Keyspace)
	}
	dst = appendString(dst, c.Target)
	dst = appendString(dst, c.Keyspace)
	if c.Target != "KEYSPACE" {
		dst = appendString(dst, c.Name)
	}
	if function {
		dst = appendStringList(dst, c.Args)
	}
	return dst
}

// Prefix is the optional part of a response that precedes the message.
type Prefix struct {
	TraceID  [16]byte
	HasTrace bool
	// Warnings and Payload exist in version 4 and later. In version 3, they are omitted.
	Warnings []string
	Payload  []PayloadEntry
}

// Flags returns the header flags for the prefix.
func (p *Prefix) Flags(version uint8) (flags byte) {
	if p.HasTrace {
		flags |= FlagTracing
	}
	if version >= V4 && len(p.Warnings) > 0 {
		flags |= FlagWarning
	}
	if version >= V4 && len(p.Payload) > 0 {
		flags |= FlagPayload
	}
	return flags
}

// AppendPrefix appends the prefix, which precedes the message.
func AppendPrefix(dst []byte, version uint8, p *Prefix) []byte {
	if p.HasTrace {
		dst = append(dst, p.TraceID[:]...)
	}
	if version < V4 {
		return dst
	}
	if len(p.Warnings) > 0 {
		dst = appendStringList(dst, p.Warnings)
	}
	if len(p.Payload) > 0 {
		dst = appendPayload(dst, p.Payload)
	}
	return dst
}

func appendPayload(dst []byte, payload []PayloadEntry) []byte {
	dst = appendU16(dst, uint16(len(payload)))
	for _, e := range payload {
		dst = AppendBytes(appendString(dst, e.Key), e.Value)
	}
	return dst
}
