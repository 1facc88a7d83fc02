// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/hex"

	"github.com/ilion-db/ilion/internal/model/schema"
)

// nodeID decodes a hexadecimal node ID. If the ID is invalid or the node's rows are not requested, ok is false.
func (b *builder) nodeID(id string) ([]byte, bool) {
	wire, err := hex.DecodeString(id)
	return wire, err == nil && len(wire) == len(schema.UUID{}) && b.wants(string(wire))
}

func fillRing(b *builder) {
	if b.info.Diagnostics == nil {
		return
	}
	for _, n := range b.info.Diagnostics.Ring() {
		id, ok := b.nodeID(n.Node)
		if !ok {
			continue
		}
		for _, t := range n.Tokens {
			b.add(values{"node": id, "token": bigint(t), "address": text(n.Address), "state": text(n.State),
				"region": text(n.Region), "zone": text(n.Zone), "node_share": double(n.Share),
				"replicas": int32Value(int32(n.Replicas)), "leading": int32Value(int32(n.Leading)),
				"disk_bytes": bigint(int64(n.DiskBytes))})
		}
	}
}
