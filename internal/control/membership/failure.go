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

// errOnlySelf means that --join contains only this node.
var errOnlySelf = errors.New("--join names this node itself: specify the internal address of another node, or use " +
	"--bootstrap to create a cluster")

// isPermanent reports whether a join failure persists without intervention. Examples are a response from a wrong node
// and a rejection.
func isPermanent(err error) bool {
	var refused *transport.Refused
	switch {
	case errors.Is(err, transport.ErrDuplicateNode), errors.Is(err, transport.ErrBusy):
		return false // another process that has just ended may still count as running
	case errors.As(err, &refused), errors.Is(err, transport.ErrHandshake), errors.Is(err, errOnlySelf):
		return true
	}
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &authority) || errors.As(err, &invalid) || isTLSAlert(err)
}

// isTLSAlert reports whether the other side has aborted the TLS handshake.
func isTLSAlert(err error) bool {
	var e *net.OpError
	return errors.As(err, &e) && e.Op == "remote error"
}

// explain adds the likely cause to a join failure.
func explain(err error) error {
	var refused *transport.Refused
	switch {
	case errors.Is(err, transport.ErrCluster) && errors.As(err, &refused) && refused.ByPeer:
		return fmt.Errorf("%w: the data directory belongs to another cluster; start the node on an empty directory",
			err)
	case errors.Is(err, transport.ErrHandshake) && !errors.As(err, &refused):
		return fmt.Errorf("%w: this is not the internal address of a node, or it uses TLS and this node does not", err)
	case errors.Is(err, transport.ErrSecret):
		return fmt.Errorf("%w: specify the join secret of the cluster with --join-secret-file; it is in the file "+
			"join-secret "+
			"in the data directory of every node", err)
	case isTLSAlert(err):
		return fmt.Errorf("%w: the other node does not accept the certificate in cluster.tls", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("%w: it closed the connection. Check whether it uses TLS and this node does not "+
			"(cluster.tls), or see its log", err)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: no node responds there", err)
	}
	return err
}

// oneLine joins the lines of an error.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
