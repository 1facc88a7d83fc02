// SPDX-License-Identifier: Apache-2.0

package container

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strings"
	"unicode/utf8"

	"github.com/ilion-db/ilion/internal/model/schema"
)

// nameMax is how long the id of a database or a container may be, in characters.
const nameMax = 255

// checkName refuses an id that Cosmos DB refuses.
func checkName(id string) *Error {
	switch {
	case id == "":
		return Errorf(400, 0, "The id must not be empty.")
	case utf8.RuneCountInString(id) > nameMax:
		return Errorf(400, 0, "Id is longer than %d characters.", nameMax)
	case strings.ContainsAny(id, "/\\?#\t\r\n"):
		return Errorf(400, 0, "Id contains illegal chars.")
	case strings.HasSuffix(id, " "):
		return Errorf(400, 0, "Id ends with a space or newline.")
	}
	return nil
}

// cqlName is the name of the keyspace or table that an id has: the id itself, if CQL takes it and no system keyspace
// may have it, or what is left of it and a hash.
func cqlName(id string) string {
	const kept = schema.KeyspaceNameMax - 9 // a _ and 8 digits
	plain := len(id) <= schema.KeyspaceNameMax && !strings.HasPrefix(strings.ToLower(id), "system")
	var b strings.Builder
	for i := 0; i < len(id); i++ {
		c := id[i]
		if c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			plain, c = false, '_'
		}
		if b.Len() < kept {
			b.WriteByte(c)
		}
	}
	if plain {
		return id
	}
	h := fnv.New32a()
	h.Write([]byte(id))
	return fmt.Sprintf("%s_%08x", b.String(), h.Sum32())
}

// Resource ids: 4 bytes for a database, 8 for a container, 16 for what is in it. Each begins with that of what it is
// in. Bits tell the kinds apart, as in Cosmos DB.
const (
	databaseRID  = 4
	containerRID = 8
	itemRID      = 16

	containerBit = 0x80 // in the fifth byte
)

func encodeRID(b []byte) string {
	return strings.ReplaceAll(base64.StdEncoding.EncodeToString(b), "/", "-")
}

// decodeRID returns the bytes of a resource id, nil if it is none.
func decodeRID(rid string) []byte {
	b, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(rid, "-", "/"))
	if err != nil || len(b) != databaseRID && len(b) != containerRID && len(b) != itemRID {
		return nil
	}
	return b
}

// ridOfDatabase is the resource id of a database by its number.
func ridOfDatabase(number uint32) []byte { return binary.BigEndian.AppendUint32(nil, number) }

// ridOfContainer is the resource id of a container by the numbers of its database and its table.
func ridOfContainer(database, table uint32) []byte {
	b := binary.BigEndian.AppendUint32(ridOfDatabase(database), table)
	b[4] |= containerBit
	return b
}

// appendItemRID appends the resource id of an item: that of its container and a hash of its key and its id. So it is
// always the same for an item, and needs no room.
func appendItemRID(dst, container, key []byte, id string) []byte {
	h := fnv.New64a()
	h.Write(key)
	h.Write([]byte{0})
	h.Write([]byte(id))
	dst = append(dst, container...)
	dst = binary.BigEndian.AppendUint64(dst, mixed(h.Sum64()))
	dst[len(dst)-1] &= 0x0f // the kind of an item
	return dst
}

// mixed spreads what differs in a hash over all its bits.
func mixed(x uint64) uint64 {
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	return x ^ x>>32
}

// ridOfScript is the resource id of a script.
func ridOfScript(container []byte, kind ScriptKind, number uint32) []byte {
	b := append(append([]byte{}, container...), 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, number)
	return append(b, [...]byte{StoredProcedure: 0x80, Trigger: 0x70, UserFunction: 0x60}[kind])
}
