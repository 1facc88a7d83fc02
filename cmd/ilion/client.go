// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// clientTLS holds the TLS options of a client.
type clientTLS struct {
	TLS         bool   `name:"tls" env:"ILION_TLS" help:"Use TLS; implied by the other TLS options"`
	TLSCA       string `name:"tls-ca" env:"ILION_TLS_CA" placeholder:"FILE" help:"Certificate authority (PEM; default: the system's)"`
	TLSCert     string `name:"tls-cert" env:"ILION_TLS_CERT" placeholder:"FILE" help:"Client certificate, in PEM format"`
	TLSKey      string `name:"tls-key" env:"ILION_TLS_KEY" placeholder:"FILE" help:"Key of the client certificate, in PEM format"`
	TLSInsecure bool   `name:"tls-insecure" env:"ILION_TLS_INSECURE" help:"Do not verify the certificate of the node (insecure)"`
}

// config returns the TLS configuration, or nil if TLS is not enabled.
func (o clientTLS) config() (*tls.Config, error) {
	if !o.TLS && o.TLSCA == "" && o.TLSCert == "" && o.TLSKey == "" && !o.TLSInsecure {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: o.TLSInsecure}
	if o.TLSCA != "" {
		text, err := os.ReadFile(o.TLSCA)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("cannot use %s as a certificate authority: it contains no certificate", o.TLSCA)
		}
	}
	if (o.TLSCert == "") != (o.TLSKey == "") {
		return nil, &usageError{"--tls-cert and --tls-key must be specified together"}
	}
	if o.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(o.TLSCert, o.TLSKey)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// credentials holds the user name and the password of a client.
type credentials struct {
	User     string `short:"u" aliases:"username" env:"ILION_USER" help:"User name"`
	Password string `short:"p" env:"ILION_PASSWORD" help:"Password; prefer the environment variable, which other users cannot see"`
}

func (c credentials) check() error {
	if c.User == "" && c.Password != "" {
		return errors.New("--password requires --user")
	}
	return nil
}
