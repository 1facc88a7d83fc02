// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ilion-db/ilion/internal/replica/transport"
)

// certCommand makes what the nodes of a cluster prove themselves to each other with.
type certCommand struct {
	Authority certAuthorityCommand `cmd:"" help:"Make the authority of a cluster: ca.crt for every node, ca.key to be kept offline."`
	Node      certNodeCommand      `cmd:"" help:"Make a certificate for a new node, with the identity that it will have."`
}

type certAuthorityCommand struct {
	Out  string `required:"" placeholder:"DIR" help:"Where ca.crt and ca.key go."`
	Name string `default:"Ilion cluster" help:"Name in the certificate."`
}

// Run writes a new authority.
func (c *certAuthorityCommand) Run(out io.Writer) error {
	a, err := transport.NewAuthority(c.Name, transport.Validity{})
	if err != nil {
		return err
	}
	cert, key, err := a.PEM()
	if err != nil {
		return err
	}
	return writePair(out, c.Out, "ca", cert, key)
}

type certNodeCommand struct {
	Authority string   `required:"" placeholder:"DIR" help:"Where ca.crt and ca.key are."`
	Out       string   `required:"" placeholder:"DIR" help:"Where node.crt and node.key go."`
	Host      []string `placeholder:"NAME,..." help:"Names or addresses to put in, for tools that check them."`
}

// Run writes the certificate of a node that does not exist yet.
func (c *certNodeCommand) Run(out io.Writer) error {
	caCert, err := os.ReadFile(filepath.Join(c.Authority, "ca.crt"))
	if err != nil {
		return err
	}
	caKey, err := os.ReadFile(filepath.Join(c.Authority, "ca.key"))
	if err != nil {
		return err
	}
	a, err := transport.LoadAuthority(caCert, caKey)
	if err != nil {
		return err
	}
	var id transport.NodeID
	rand.Read(id[:])
	cert, key, err := a.Issue(id, c.Host, transport.Validity{})
	if err != nil {
		return err
	}
	if err := writePair(out, c.Out, "node", cert, key); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "the node will be %s\n", hex.EncodeToString(id[:]))
	return err
}

// writePair writes NAME.crt and NAME.key, and never over what is there.
func writePair(out io.Writer, dir, name string, cert, key []byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, f := range []struct {
		ending string
		data   []byte
		mode   fs.FileMode
	}{{".key", key, 0o600}, {".crt", cert, 0o644}} {
		path := filepath.Join(dir, name+f.ending)
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, f.mode)
		if err != nil {
			return err
		}
		_, err = file.Write(f.data)
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
		fmt.Fprintln(out, "wrote", path)
	}
	return nil
}
