// SPDX-License-Identifier: Apache-2.0

package transport_test

import (
	"io"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

// raftTransport is the adapter of the package's documentation.
type raftTransport struct{ *transport.Transport }

func (t raftTransport) Send(to raftgroup.NodeID, frame []byte) bool {
	return t.Transport.Send(transport.NodeID(to), frame)
}

func (t raftTransport) SendSnapshot(to raftgroup.NodeID, head []byte, data io.ReaderAt, size int64) error {
	return t.Transport.SendSnapshot(transport.NodeID(to), head, data, size)
}

var _ raftgroup.Transport = raftTransport{}
