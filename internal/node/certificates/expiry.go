// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// expiryWarning is the time before the expiration of a certificate from which the status, the log, and alerts
	// report it.
	expiryWarning = 30 * 24 * time.Hour
	// expiryLogEvery is the interval between two warnings in the log.
	expiryLogEvery = 24 * time.Hour
)

// lifetime is the validity of a configured certificate.
type lifetime struct {
	// option is the configuration option for the certificate. file is the path of the certificate.
	option, file string
	from, until  time.Time
}

// lifetimesOf returns the lifetimes of the certificates in use. clients and nodes are the loaded configurations, or
// nil.
func (s *Store) lifetimesOf(clients, nodes *tls.Config) (out []lifetime) {
	leaf := func(option, file string, config *tls.Config) {
		if config == nil || len(config.Certificates) == 0 {
			return
		}
		if cert, err := x509.ParseCertificate(config.Certificates[0].Certificate[0]); err == nil {
			out = append(out, lifetime{option, file, cert.NotBefore, cert.NotAfter})
		}
	}
	leaf("tls.cert", s.client.Cert, clients)
	leaf("cluster.tls.cert", s.node.Cert, nodes)
	for option, file := range map[string]string{"tls.client_ca": s.client.ClientCA, "cluster.tls.ca": s.node.CA} {
		if l, ok := authorityLifetime(file); ok {
			l.option = option
			out = append(out, l)
		}
	}
	return out
}

// authorityLifetime returns the lifetime of the certificate authority in a file. If the file contains several
// authorities, for example during a replacement, the function returns the lifetime that ends last.
func authorityLifetime(file string) (l lifetime, ok bool) {
	if file == "" {
		return l, false
	}
	rest, err := os.ReadFile(file)
	for err == nil {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil && cert.NotAfter.After(l.until) {
			l, ok = lifetime{file: file, from: cert.NotBefore, until: cert.NotAfter}, true
		}
	}
	return l, ok
}

// valid reports whether the certificate is valid at the given time.
func (l *lifetime) valid(now time.Time) bool { return !now.Before(l.from) && !now.After(l.until) }

// refuseInvalid returns an error if an invalid certificate would replace a valid certificate.
func refuseInvalid(old, next []lifetime, now time.Time) error {
	for i := range next {
		l := &next[i]
		if l.valid(now) {
			continue
		}
		for j := range old {
			if old[j].option == l.option && old[j].valid(now) {
				return fmt.Errorf("%s: the certificate in %s is valid only from %s to %s: keeping the previous certificate", l.option,
					l.file, l.from.UTC().Format(time.RFC3339), l.until.UTC().Format(time.RFC3339))
			}
		}
	}
	return nil
}

// Problems describes the certificates of this node that have expired or expire soon.
func (s *Store) Problems() (problems []string) {
	now := time.Now()
	for _, l := range *s.lifetimes.Load() {
		how := "replace the file with a certificate that your authority has renewed; the node reloads it without a restart"
		if l.option == "cluster.tls.cert" {
			how = "renew it with ilion cert renew"
		}
		day := l.until.UTC().Format("2006-01-02 15:04 MST")
		switch left := l.until.Sub(now); {
		case left <= 0:
			problems = append(problems, fmt.Sprintf("the certificate in %s (%s) expired on %s: %s", l.file, l.option,
				day, how))
		case left < expiryWarning:
			problems = append(problems, fmt.Sprintf("the certificate in %s (%s) expires on %s, in %d days: %s", l.file,
				l.option, day, int(left/(24*time.Hour)), how))
		}
	}
	return problems
}

// logProblems logs the expiration problems.
func (s *Store) logProblems(ctx context.Context) {
	for _, p := range s.Problems() {
		s.log.LogAttrs(ctx, slog.LevelWarn, p)
	}
}

// expiryMetric is the expiration time of a certificate.
var expiryMetric = prometheus.NewDesc("ilion_certificate_expiry_timestamp_seconds",
	"Expiration time of a certificate of this node, in seconds since 1970.", []string{"option"}, nil)

// Describe implements prometheus.Collector.
func (s *Store) Describe(out chan<- *prometheus.Desc) { out <- expiryMetric }

// Collect implements prometheus.Collector.
func (s *Store) Collect(out chan<- prometheus.Metric) {
	for _, l := range *s.lifetimes.Load() {
		out <- prometheus.MustNewConstMetric(expiryMetric, prometheus.GaugeValue, float64(l.until.Unix()), l.option)
	}
}
