// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/ilion-db/ilion/internal/tool/backup"
	"github.com/ilion-db/ilion/internal/tool/bucket"
)

// storageURL holds the options for accessing a backup repository.
type storageURL struct {
	KeyFile string    `name:"key-file" env:"ILION_BACKUP_KEY_FILE" placeholder:"FILE" help:"Encryption key, from ilion backup key"`
	S3      s3Options `embed:"" prefix:"s3-"`
}

// s3Options holds the options for accessing S3.
type s3Options struct {
	Endpoint    string `env:"AWS_ENDPOINT_URL_S3,AWS_ENDPOINT_URL" placeholder:"URL" help:"S3 endpoint (default: AWS)"`
	Region      string `env:"AWS_REGION,AWS_DEFAULT_REGION" default:"us-east-1" help:"Region of the bucket (default ${default})"`
	Style       string `env:"ILION_S3_STYLE" placeholder:"path|host" help:"Bucket name in the path or host of URLs (default: host for AWS)"`
	Credentials string `env:"AWS_SHARED_CREDENTIALS_FILE" placeholder:"FILE" help:"Credentials file (default ~/.aws/credentials)"`
	Profile     string `env:"AWS_PROFILE" default:"default" help:"Profile in the credentials file (default ${default})"`
	CA          string `name:"ca" env:"AWS_CA_BUNDLE" placeholder:"FILE" help:"Certificate authority (PEM; default: the system's)"`
}

// open opens the repository in a directory or at a URL.
func (p *storageURL) open(ctx context.Context, name string, create bool) (backup.Target, error) {
	at := backup.Place{Name: name, Bucket: bucket.Options{Endpoint: p.S3.Endpoint, Region: p.S3.Region,
		Style: p.S3.Style, Credentials: p.S3.credentials}}
	var err error
	if p.KeyFile != "" {
		if at.Key, err = backup.ReadKey(p.KeyFile); err != nil {
			return nil, err
		}
	}
	if p.S3.CA != "" {
		text, err := os.ReadFile(p.S3.CA)
		if err != nil {
			return nil, err
		}
		at.Bucket.Roots = x509.NewCertPool()
		if !at.Bucket.Roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("cannot use %s as a certificate authority: it contains no certificate", p.S3.CA)
		}
	}
	return at.Open(ctx, create)
}

// credentials returns the credentials from the environment or the credentials file.
func (s *s3Options) credentials() (bucket.Credentials, error) {
	if c, ok, err := bucket.FromEnvironment(os.Getenv); ok || err != nil {
		return c, err
	}
	path := s.Credentials
	if path == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return bucket.Credentials{}, bucket.ErrNoCredentials
		}
		path = filepath.Join(home, ".aws", "credentials")
	}
	return bucket.FromFile(path, s.Profile)
}

type backupKeyCommand struct {
	File string `arg:"" placeholder:"FILE" help:"File to create, readable by its owner only"`
}

// Run generates an encryption key.
func (c *backupKeyCommand) Run(out io.Writer) error {
	key, err := backup.MakeKey(c.File)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "Key with fingerprint %[2]s written to %[1]s. Keep a copy outside of the repository: without "+
		"the key, encrypted backups cannot be read.\n", c.File, key.Fingerprint())
	return err
}
