// SPDX-License-Identifier: Apache-2.0

package cqlwire

import "github.com/ilion-db/ilion/internal/model/cqltype"

// Column describes a bind marker or a column of a result.
type Column struct {
	Keyspace, Table, Name string
	Type                  *cqltype.Type
}

// These are the metadata flags.
const (
	metaGlobalSpec = 1
	metaMorePages  = 2
	metaNone       = 4
	metaChanged    = 8
)

// ColumnsBlock is the encoded description of columns for a class of versions (see BlockSlot). In the metadata, the
// block is between the paging state and the rows. It is encoded only once per prepared statement.
type ColumnsBlock []byte

// BlockSlot returns the number of the class of versions that share a ColumnsBlock. The number is 0 for version 3, 1 for
// version 4, and 2 for version 5.
func BlockSlot(version uint8) int { return int(version) - VersionMin }

// AppendColumnsBlock appends the block for the given columns. The first byte of the block is the flag of the global
// table specification. The remaining bytes are sent unchanged.
func AppendColumnsBlock(dst []byte, version uint8, columns []Column) ColumnsBlock {
	global := sameTable(columns)
	if !global {
		dst = append(dst, 0)
	} else {
		dst = append(dst, metaGlobalSpec)
		dst = appendString(dst, columns[0].Keyspace)
		dst = appendString(dst, columns[0].Table)
	}
	for i := range columns {
		c := &columns[i]
		if !global {
			dst = appendString(dst, c.Keyspace)
			dst = appendString(dst, c.Table)
		}
		dst = appendString(dst, c.Name)
		dst = appendType(dst, version, c.Type)
	}
	return dst
}

func sameTable(columns []Column) bool {
	for i := range columns {
		if columns[i].Keyspace != columns[0].Keyspace || columns[i].Table != columns[0].Table {
			return false
		}
	}
	return len(columns) > 0
}

const marshal = "org.apache.cassandra.db.marshal."

// nativeOption describes the encoding of a native type. In the version since and later, the type has an ID. In earlier
// versions, it is encoded as the class of a custom type.
type nativeOption struct {
	id    uint16
	since uint8
	class string
}

var nativeOptions = [cqltype.Varint + 1]nativeOption{
	cqltype.Ascii:     {0x01, 0, "AsciiType"},
	cqltype.Bigint:    {0x02, 0, "LongType"},
	cqltype.Blob:      {0x03, 0, "BytesType"},
	cqltype.Boolean:   {0x04, 0, "BooleanType"},
	cqltype.Counter:   {0x05, 0, "CounterColumnType"},
	cqltype.Decimal:   {0x06, 0, "DecimalType"},
	cqltype.Double:    {0x07, 0, "DoubleType"},
	cqltype.Float:     {0x08, 0, "FloatType"},
	cqltype.Int:       {0x09, 0, "Int32Type"},
	cqltype.Timestamp: {0x0B, 0, "TimestampType"},
	cqltype.UUID:      {0x0C, 0, "UUIDType"},
	cqltype.Text:      {0x0D, 0, "UTF8Type"},
	cqltype.Varint:    {0x0E, 0, "IntegerType"},
	cqltype.Timeuuid:  {0x0F, 0, "TimeUUIDType"},
	cqltype.Inet:      {0x10, 0, "InetAddressType"},
	cqltype.Date:      {0x11, V4, "SimpleDateType"},
	cqltype.Time:      {0x12, V4, "TimeType"},
	cqltype.Smallint:  {0x13, V4, "ShortType"},
	cqltype.Tinyint:   {0x14, V4, "ByteType"},
	cqltype.Duration:  {0x15, V5, "DurationType"},
}

const (
	optionCustom = 0x00
	optionList   = 0x20
	optionMap    = 0x21
	optionSet    = 0x22
	optionUDT    = 0x30
	optionTuple  = 0x31
)

// appendType appends the [option] of a type.
func appendType(dst []byte, version uint8, t *cqltype.Type) []byte {
	switch t.Kind {
	case cqltype.List:
		return appendElems(appendU16(dst, optionList), version, t)
	case cqltype.Set:
		return appendElems(appendU16(dst, optionSet), version, t)
	case cqltype.Map:
		return appendElems(appendU16(dst, optionMap), version, t)
	case cqltype.Tuple:
		dst = appendU16(appendU16(dst, optionTuple), uint16(len(t.Elems)))
		return appendElems(dst, version, t)
	case cqltype.UDT:
		dst = appendString(appendU16(dst, optionUDT), t.Keyspace)
		dst = appendString(dst, t.Name)
		dst = appendU16(dst, uint16(len(t.Elems)))
		for i, e := range t.Elems {
			dst = appendType(appendString(dst, t.Fields[i]), version, e)
		}
		return dst
	case cqltype.Vector:
		return appendString(appendU16(dst, optionCustom), t.JavaClass())
	case cqltype.Custom:
		return appendString(appendU16(dst, optionCustom), t.Name)
	}
	if int(t.Kind) >= len(nativeOptions) || nativeOptions[t.Kind].id == 0 {
		return appendString(appendU16(dst, optionCustom), marshal+"EmptyType")
	}
	o := &nativeOptions[t.Kind]
	if version < o.since {
		return appendString(appendU16(dst, optionCustom), marshal+o.class)
	}
	return appendU16(dst, o.id)
}

func appendElems(dst []byte, version uint8, t *cqltype.Type) []byte {
	for _, e := range t.Elems {
		dst = appendType(dst, version, e)
	}
	return dst
}
