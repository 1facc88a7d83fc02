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

// place is how a place for backups is reached.
type place struct {
	KeyFile string `name:"key-file" env:"ILION_BACKUP_KEY_FILE" placeholder:"FILE" help:"Key that encrypts it (see ilion backup key)."`
	S3      server `embed:"" prefix:"s3-"`
}

// server is where buckets are.
type server struct {
	Endpoint    string `env:"AWS_ENDPOINT_URL_S3,AWS_ENDPOINT_URL" placeholder:"URL" help:"Server of s3://BUCKET/PREFIX (default: AWS's)."`
	Region      string `env:"AWS_REGION,AWS_DEFAULT_REGION" default:"us-east-1" help:"Region of the bucket."`
	Style       string `env:"ILION_S3_STYLE" placeholder:"path|host" help:"Where a URL has the bucket (default: path, at AWS host)."`
	Credentials string `env:"AWS_SHARED_CREDENTIALS_FILE" placeholder:"FILE" help:"If not in AWS_ACCESS_KEY_ID (~/.aws/credentials)."`
	Profile     string `env:"AWS_PROFILE" default:"default" help:"Which of the credentials in a file."`
	CA          string `name:"ca" env:"AWS_CA_BUNDLE" placeholder:"FILE" help:"Authority of the server (PEM; default: the system's)."`
}

// open opens the place of a name.
func (p *place) open(ctx context.Context, name string, create bool) (backup.Target, error) {
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
			return nil, fmt.Errorf("%s holds no certificate", p.S3.CA)
		}
	}
	return at.Open(ctx, create)
}

// credentials are those of the environment, or else of the file.
func (s *server) credentials() (bucket.Credentials, error) {
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
	File string `arg:"" placeholder:"FILE" help:"A new file, which nobody else may read."`
}

// Run makes a key.
func (c *backupKeyCommand) Run(out io.Writer) error {
	key, err := backup.MakeKey(c.File)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s holds a key with the fingerprint %s: keep a copy where the backups are not; what it has "+
		"encrypted nobody can read without it\n", c.File, key.Fingerprint())
	return err
}
