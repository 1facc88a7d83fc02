// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/replica/encryption"
	"github.com/ilion-db/ilion/internal/server/admin"
)

// encryptionCommand groups the commands for encryption at rest.
type encryptionCommand struct {
	Status      encryptionStatusCommand      `cmd:"" help:"Show the keys and the encrypted share of a node's data"`
	Key         encryptionKeyCommand         `cmd:"" help:"Create a store key and print its fingerprint"`
	Fingerprint encryptionFingerprintCommand `cmd:"" help:"Print the fingerprint of a store key"`
	Rotate      encryptionRotateCommand      `cmd:"" help:"Read the store key again and replace the data key"`
	Rewrite     encryptionRewriteCommand     `cmd:"" help:"Rewrite older files with the newest data key"`
	Decrypt     encryptionDecryptCommand     `cmd:"" help:"Print a decrypted file of a data directory, such as an audit log"`
}

// storeKeyOptions are the sources of the store key of a data directory.
type storeKeyOptions struct {
	KeyFile    string `name:"encryption-key-file" placeholder:"FILE" help:"File with the store key of an encrypted data directory"`
	KeyCommand string `name:"encryption-key-command" placeholder:"COMMAND" help:"Command that prints the store key"`
}

// source returns the source of the key.
func (o *storeKeyOptions) source() (encryption.KeySource, error) {
	if o.KeyFile != "" && o.KeyCommand != "" {
		return encryption.KeySource{}, &usageError{"--encryption-key-file and --encryption-key-command are both set: " +
			"use one of them"}
	}
	return encryption.KeySource{File: o.KeyFile, Command: o.KeyCommand}, nil
}

type encryptionKeyCommand struct {
	File string `arg:"" placeholder:"FILE" help:"New file for the key"`
}

// Run creates a key.
func (c *encryptionKeyCommand) Run(out io.Writer) error {
	k, err := encryption.MakeKey(c.File)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "The store key %s was written to %s.\n", k.Fingerprint(), c.File)
	fmt.Fprintln(out, "Keep a copy in a safe place: without the key, the data cannot be read.")
	return nil
}

type encryptionFingerprintCommand struct {
	storeKeyOptions
}

// Run prints the fingerprint of a key.
func (c *encryptionFingerprintCommand) Run(out io.Writer) error {
	source, err := c.source()
	if err == nil && !source.Configured() {
		err = &usageError{"specify --encryption-key-file or --encryption-key-command"}
	}
	if err != nil {
		return err
	}
	k, err := source.Read(context.Background())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, k.Fingerprint())
	return err
}

type encryptionStatusCommand struct {
	adminClient
	refreshOptions
}

// Run prints the state of a node.
func (c *encryptionStatusCommand) Run(out io.Writer) error {
	return c.show(out, func(ctx context.Context) (any, func(io.Writer), error) {
		var s encryption.Status
		err := c.fetch(ctx, "/encryption", &s)
		return s, func(out io.Writer) { printEncryption(out, &s) }, err
	})
}

func printEncryption(out io.Writer, s *encryption.Status) {
	state := "enabled"
	if !s.Enabled {
		state = "being switched off: new files are not encrypted"
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "Encryption\t%s\n", state)
	fmt.Fprintf(w, "Store key\t%s from %s\n", s.StoreKey, s.Source)
	for _, k := range s.Replaced {
		fmt.Fprintf(w, "Old store key\t%s, replaced %s\n", k.Fingerprint, k.Replaced.UTC().Format(time.RFC3339))
	}
	fmt.Fprintf(w, "Data key\t%s (AES-%d), created %s\n", s.DataKey, s.Bits, s.Created.UTC().Format(time.RFC3339))
	for _, c := range []struct {
		name string
		encryption.Count
	}{{"Encrypted", s.Encrypted}, {"Older data keys", s.Outdated}, {"Not encrypted", s.Plain}} {
		fmt.Fprintf(w, "%s\t%s in %s\n", c.name, sizeText(c.Bytes), plural(c.Files, "file"))
	}
	fmt.Fprintf(w, "Encrypted share\t%.1f %%\n", 100*s.Share)
	_ = w.Flush() // like all output of a command
}

type encryptionRotateCommand struct {
	adminClient
}

// Run replaces the data key of a node, and its store key if the configured key has changed.
func (c *encryptionRotateCommand) Run(out io.Writer) error {
	body, err := c.request(http.MethodPost, "/encryption/rotate")
	if err != nil {
		return err
	}
	_, err = out.Write(body)
	return err
}

type encryptionRewriteCommand struct {
	adminClient
}

// Run rewrites the tables of a node. A request rewrites some files.
func (c *encryptionRewriteCommand) Run(out io.Writer) error {
	var total encryption.Count
	for {
		body, err := c.request(http.MethodPost, "/encryption/rewrite")
		if err != nil {
			return err
		}
		var done admin.Rewritten
		if err := json.Unmarshal(body, &done); err != nil {
			return c.notANode()
		}
		total.Files, total.Bytes = total.Files+done.Files, total.Bytes+done.Bytes
		if !done.More {
			fmt.Fprintf(out, "%s with %s were rewritten.\n", plural(total.Files, "file"), sizeText(total.Bytes))
			return nil
		}
	}
}

type encryptionDecryptCommand struct {
	storeKeyOptions
	Data string `env:"ILION_DATA" default:"./ilion-data" placeholder:"DIR" help:"Data directory of the file (default ${default})"`
	File string `arg:"" placeholder:"FILE" help:"File to decrypt"`
}

// Run prints the contents of a file. The node may be running.
func (c *encryptionDecryptCommand) Run(out io.Writer) error {
	source, err := c.source()
	if err != nil {
		return err
	}
	keys, err := encryption.Open(context.Background(), vfs.Default, encryption.Options{Key: source, KeepPlain: true,
		Dirs: []string{c.Data}})
	if err != nil {
		return fmt.Errorf("cannot decrypt %s: open data directory %s: %w", c.File, c.Data, err)
	}
	if keys == nil {
		return fmt.Errorf("cannot decrypt %s: the data directory %s is not encrypted", c.File, c.Data)
	}
	f, err := keys.FS().Open(filepath.Clean(c.File))
	if err != nil {
		return fmt.Errorf("cannot decrypt the file: %w", err)
	}
	text, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("cannot decrypt the file: %w", err)
	}
	damaged, err := keys.Reveal(text, out)
	if err == nil && damaged > 0 {
		fmt.Fprintf(os.Stderr, "%d bytes of %s cannot be decrypted: they are damaged, or another node encrypted them\n",
			damaged, c.File)
	}
	return err
}
