// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/replica/transport"
)

// sharedLog is a log that can be read while it is written.
type sharedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *sharedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *sharedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestExpiringCertificates checks that status, log, and metrics report when a certificate expires. An expired
// certificate must not replace the current certificate, and neither must a certificate that is not valid yet. A
// renewed certificate must replace the current certificate while the node runs. The certificates of the test are valid
// for an hour.
func TestExpiringCertificates(t *testing.T) {
	t.Parallel()
	here := []net.IP{net.IPv4(127, 0, 0, 1)}
	ca := newAuthority(t, "ca")
	ca.signUntil("server", here, time.Now().Add(time.Hour))
	log := new(sharedLog)
	n := startNode(t, Options{HTTP: "127.0.0.1:0", Log: slog.New(slog.NewTextHandler(log, nil)),
		TLS: options.TLS{Cert: ca.path("server.pem"), Key: ca.path("server.key")}})
	put := func(until time.Time) (string, error) {
		c, _ := ca.signUntil("next", here, until)
		for _, ending := range []string{".key", ".pem"} {
			if err := os.Rename(ca.path("next"+ending), ca.path("server"+ending)); err != nil {
				t.Fatal(err)
			}
		}
		return c.SerialNumber.String(), n.Reload()
	}
	expiry := func() float64 {
		metrics := make(chan prometheus.Metric, 8)
		n.certificates.Collect(metrics)
		if len(metrics) != 1 {
			t.Fatalf("%d metrics, want 1", len(metrics))
		}
		return written(t, <-metrics)
	}
	address := n.CQLAddr().String()
	first := shownSerial(t, address).String()
	const soon = "(tls.cert) expires on"
	problems := n.reports.Status().Problems
	if len(problems) != 1 || !strings.Contains(problems[0], soon) || !strings.Contains(log.String(), soon) {
		t.Errorf("problems %q, log %s", problems, log)
	}
	for _, until := range []time.Time{time.Now().Add(-time.Minute), time.Now().Add(-24 * time.Hour)} {
		if _, err := put(until); err == nil || !strings.Contains(err.Error(), "keeping the previous certificate") {
			t.Errorf("a certificate that expired on %v: %v", until, err)
		}
		if got := shownSerial(t, address).String(); got != first {
			t.Errorf("the server presents an expired certificate")
		}
	}
	until := time.Now().Add(90 * 24 * time.Hour).Truncate(time.Second)
	serial, err := put(until)
	if got := shownSerial(t, address).String(); err != nil || got != serial {
		t.Errorf("a renewed certificate: %v, the server presents %s, want %s", err, got, serial)
	}
	if problems := n.reports.Status().Problems; len(problems) > 0 {
		t.Errorf("after the renewal: %q", problems)
	}
	if got := expiry(); got != float64(until.Unix()) {
		t.Errorf("the metric is %v, want %v", got, until.Unix())
	}
}

// written returns the current value of a gauge.
func written(t *testing.T, m prometheus.Metric) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(one{m})
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%d metrics: %v", len(families), err)
	}
	return families[0].GetMetric()[0].GetGauge().GetValue()
}

// one is a collector of a single metric.
type one struct{ prometheus.Metric }

func (o one) Describe(out chan<- *prometheus.Desc) { out <- o.Desc() }
func (o one) Collect(out chan<- prometheus.Metric) { out <- o.Metric }

// TestNodeCertificateIsRenewed checks that a running cluster node loads a renewed certificate and rejects an expired
// certificate. The expiry reports must include the certificate authority.
func TestNodeCertificateIsRenewed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority, err := transport.NewAuthority("test", transport.Validity{For: 2 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, data []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca, _, err := authority.PEM()
	if err != nil {
		t.Fatal(err)
	}
	id := transport.NodeID{1, 2, 3}
	issue := func(v transport.Validity) {
		t.Helper()
		cert, key, err := authority.Issue(id, nil, v)
		if err != nil {
			t.Fatal(err)
		}
		write("node.key", key)
		write("node.crt", cert)
	}
	issue(transport.Validity{For: 90 * time.Minute})
	n := startNode(t, Options{HTTP: "127.0.0.1:0", Cluster: options.Cluster{Internal: "127.0.0.1:0", Bootstrap: true,
		TLS: options.NodeTLS{CA: write("ca.crt", ca), Cert: filepath.Join(dir, "node.crt"),
			Key: filepath.Join(dir, "node.key")}}})
	problems := fmt.Sprint(n.certificates.Problems())
	for _, want := range []string{"(cluster.tls.cert) expires on", "(cluster.tls.ca) expires on", "ilion cert renew"} {
		if !strings.Contains(problems, want) {
			t.Errorf("the problems are %s", problems)
		}
	}
	issue(transport.Validity{From: time.Now().Add(-2 * time.Hour), For: time.Hour})
	if err := n.Reload(); err == nil || !strings.Contains(err.Error(), "cluster.tls.cert") {
		t.Errorf("an expired certificate: %v", err)
	}
	issue(transport.Validity{})
	if err := n.Reload(); err != nil {
		t.Error(err)
	}
	if problems := fmt.Sprint(n.certificates.Problems()); strings.Contains(problems, "cluster.tls.cert") {
		t.Errorf("after the renewal: %s", problems)
	}
}
