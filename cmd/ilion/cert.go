// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/ilion-db/ilion/internal/replica/transport"
)

// certCommand groups the commands for node certificates.
type certCommand struct {
	Authority certAuthorityCommand `cmd:"" help:"Create a certificate authority for a cluster"`
	Node      certNodeCommand      `cmd:"" help:"Create a certificate for a new node"`
	Renew     certRenewCommand     `cmd:"" help:"Renew the certificate of a node without a restart"`
}

type certAuthorityCommand struct {
	Out  string `required:"" placeholder:"DIR" help:"Directory for ca.crt and ca.key"`
	Name string `default:"Ilion cluster" help:"Name in the certificate (default ${default})"`
}

// Run creates a certificate authority.
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
	Authority string   `required:"" placeholder:"DIR" help:"Directory with ca.crt and ca.key"`
	Out       string   `required:"" placeholder:"DIR" help:"Directory for node.crt and node.key"`
	Host      []string `placeholder:"NAME,..." help:"Host names and addresses in the certificate, for clients that check them"`
}

// Run creates a certificate for a new node.
func (c *certNodeCommand) Run(out io.Writer) error {
	a, err := loadAuthority(c.Authority)
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
	_, err = fmt.Fprintf(out, "node ID: %s\n", hex.EncodeToString(id[:]))
	return err
}

// loadAuthority reads ca.crt and ca.key.
func loadAuthority(dir string) (*transport.Authority, error) {
	cert, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(filepath.Join(dir, "ca.key"))
	if err != nil {
		return nil, err
	}
	return transport.LoadAuthority(cert, key)
}

type certRenewCommand struct {
	Authority string `required:"" placeholder:"DIR" help:"Directory with ca.crt and ca.key"`
	Node      string `required:"" placeholder:"DIR" help:"Directory with node.crt and node.key; both files are replaced"`
}

// Run replaces the certificate and the key of a node. The new certificate contains the same node ID, host names, and
// addresses.
func (c *certRenewCommand) Run(out io.Writer) error {
	a, err := loadAuthority(c.Authority)
	if err != nil {
		return err
	}
	path := filepath.Join(c.Node, "node.crt")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var old *x509.Certificate
	if block, _ := pem.Decode(text); block != nil {
		old, err = x509.ParseCertificate(block.Bytes)
	}
	if old == nil || err != nil {
		return fmt.Errorf("cannot renew %s: the file contains no certificate", path)
	}
	id, ok := transport.NodeOf(old)
	if !ok {
		return fmt.Errorf("cannot renew %s: the certificate contains no node ID. Create a certificate with ilion cert node", path)
	}
	hosts := old.DNSNames
	for _, ip := range old.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	cert, key, err := a.Issue(id, hosts, transport.Validity{})
	if err != nil {
		return err
	}
	// A node may read the new key together with the old certificate. In this case, the node detects the mismatch, keeps
	// the previous pair, and retries.
	for _, f := range []struct {
		name string
		data []byte
		mode fs.FileMode
	}{{"node.key", key, 0o600}, {"node.crt", cert, 0o644}} {
		if err := replaceFile(filepath.Join(c.Node, f.name), f.data, f.mode); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, "Renewed the certificate of node %s for one year. The previous certificate expires on %s. A "+
		"running node loads the new certificate within seconds.\n", hex.EncodeToString(id[:]),
		old.NotAfter.UTC().Format(time.DateOnly))
	return err
}

// replaceFile replaces a file atomically.
func replaceFile(path string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// writePair writes NAME.crt and NAME.key. It never overwrites an existing file.
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
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("cannot write %s: the file exists. Specify another directory", path)
		}
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
