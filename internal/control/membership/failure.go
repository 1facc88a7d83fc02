// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/ilion-db/ilion/internal/replica/transport"
)

// errOnlySelf is the end of a node that is told to join itself.
var errOnlySelf = errors.New("--join names this node itself: give the internal address of another node, or --bootstrap to found a cluster")

// hopeless reports whether a failure to join will not pass by itself: somebody answered, and it was the wrong one, or
// did not want this node.
func hopeless(err error) bool {
	var refused *transport.Refused
	switch {
	case errors.Is(err, transport.ErrDuplicateNode), errors.Is(err, transport.ErrBusy):
		return false // a process that has just ended may be taken for a living one
	case errors.As(err, &refused), errors.Is(err, transport.ErrHandshake), errors.Is(err, errOnlySelf):
		return true
	}
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &authority) || errors.As(err, &invalid) || alerted(err)
}

// alerted reports whether the other side has ended the TLS handshake.
func alerted(err error) bool {
	var e *net.OpError
	return errors.As(err, &e) && e.Op == "remote error"
}

// explain adds to a failure to join what it is likely to come from.
func explain(err error) error {
	var refused *transport.Refused
	switch {
	case errors.Is(err, transport.ErrCluster) && errors.As(err, &refused) && refused.ByPeer:
		return fmt.Errorf("%w: the data directory belongs to another cluster; start on an empty one", err)
	case errors.Is(err, transport.ErrHandshake) && !errors.As(err, &refused):
		return fmt.Errorf("%w: this is not the internal address of a node, or it uses TLS and this node does not", err)
	case errors.Is(err, transport.ErrSecret):
		return fmt.Errorf("%w: give this node the join secret of the cluster, which is in the file join-secret "+
			"in the data directory of each of its nodes, with --join-secret-file", err)
	case alerted(err):
		return fmt.Errorf("%w: the other node does not accept the certificate in cluster.tls", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("%w: it hung up; perhaps it uses TLS and this node does not (cluster.tls), or its log says why", err)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: nothing that answers as a node does", err)
	}
	return err
}

// oneLine makes one line of joined errors.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
