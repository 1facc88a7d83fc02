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

// nameMax is the maximum length of a database or container ID in characters.
const nameMax = 255

// checkName rejects an ID that Cosmos DB rejects.
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

// cqlName returns the name of the keyspace or table for an ID. It returns the ID itself if the ID is valid in CQL and
// not reserved for a system keyspace. Otherwise, it returns the valid part of the ID and a hash.
func cqlName(id string) string {
	const kept = schema.KeyspaceNameMax - 9 // an underscore and 8 digits
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

// Resource IDs have 4 bytes for a database, 8 for a container, and 16 for a resource in a container. Each resource ID
// begins with the ID of its parent. As in Cosmos DB, some bits identify the kind.
const (
	databaseRID  = 4
	containerRID = 8
	itemRID      = 16

	containerBit = 0x80 // stored in the fifth byte
)

func encodeRID(b []byte) string {
	return strings.ReplaceAll(base64.StdEncoding.EncodeToString(b), "/", "-")
}

// decodeRID returns the bytes of a resource ID, or nil if rid is invalid.
func decodeRID(rid string) []byte {
	b, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(rid, "-", "/"))
	if err != nil || len(b) != databaseRID && len(b) != containerRID && len(b) != itemRID {
		return nil
	}
	return b
}

// ridOfDatabase returns the resource ID of a database.
func ridOfDatabase(number uint32) []byte { return binary.BigEndian.AppendUint32(nil, number) }

// ridOfContainer returns the resource ID of a container from the numbers of its database and its table.
func ridOfContainer(database, table uint32) []byte {
	b := binary.BigEndian.AppendUint32(ridOfDatabase(database), table)
	b[4] |= containerBit
	return b
}

// appendItemRID appends the resource ID of an item. It consists of the container's resource ID and a hash of the
// item's key and ID. The resource ID is therefore stable although it is not stored.
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

// mixed distributes the entropy of a hash over all of its bits.
func mixed(x uint64) uint64 {
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	return x ^ x>>32
}

// ridOfScript returns the resource ID of a script.
func ridOfScript(container []byte, kind ScriptKind, number uint32) []byte {
	b := append(append([]byte{}, container...), 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, number)
	return append(b, [...]byte{StoredProcedure: 0x80, Trigger: 0x70, UserFunction: 0x60}[kind])
}
