// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ilion-db/ilion/internal/server/admin"
)

// door is how commands reach a running node.
type door struct {
	HTTP string `name:"http" env:"ILION_HTTP" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"HTTP address of any node of the cluster, or its URL."`
	credentials
	clientTLS
}

const (
	// answerMax bounds what is read of an answer, in bytes.
	answerMax = 256 << 20
	// answerWait is how long an answer may take.
	answerWait = time.Minute
)

// address is where the node answers, as a URL without a path.
func (d door) address(encrypted bool) (string, error) {
	if !strings.Contains(d.HTTP, "://") {
		scheme := "http"
		if encrypted {
			scheme = "https"
		}
		return scheme + "://" + d.HTTP, nil
	}
	u, err := url.Parse(d.HTTP)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" ||
		u.RawQuery != "":
		return "", &usageError{fmt.Sprintf("--http %s is neither HOST:PORT nor http://HOST:PORT nor https://HOST:PORT",
			d.HTTP)}
	case u.Scheme == "http" && encrypted:
		return "", &usageError{fmt.Sprintf("--http %s is without TLS, and there are options for it: say https", d.HTTP)}
	}
	return u.Scheme + "://" + u.Host, nil
}

// ask sends a request to the node and returns what it answers.
func (d door) ask(method, path string) ([]byte, error) {
	config, err := d.config()
	if err == nil {
		err = d.check()
	}
	if err != nil {
		return nil, err
	}
	address, err := d.address(config != nil)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequest(method, address+path, nil)
	if err != nil {
		return nil, err
	}
	if d.User != "" {
		req.SetBasicAuth(d.User, d.Password)
	}
	client := http.Client{Timeout: answerWait, Transport: &http.Transport{TLSClientConfig: config}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, d.unanswered(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerMax))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		text := strings.TrimSpace(string(body))
		switch {
		case strings.Contains(text, "HTTP request to an HTTPS server"):
			return nil, fmt.Errorf("the node at %s speaks TLS: say --http https://%s, and --tls-ca FILE if its certificate is of an authority of your own", d.HTTP, d.HTTP)
		case text == "" || strings.ContainsAny(text, "\n<"):
			return nil, fmt.Errorf("%s is not the HTTP address of a node: it answers %s", d.HTTP, resp.Status)
		}
		return nil, errors.New(text)
	}
	return body, nil
}

// unanswered says why there is no answer.
func (d door) unanswered(err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		err = e.Err // the address is said already
	}
	if e := (*tls.CertificateVerificationError)(nil); errors.As(err, &e) {
		return fmt.Errorf("the certificate of the node at %s is not to be trusted: %w: give --tls-ca FILE", d.HTTP,
			e.Err)
	}
	if strings.Contains(err.Error(), "malformed HTTP") ||
		strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		return fmt.Errorf("%s is not the HTTP address of a node, or not with TLS", d.HTTP)
	}
	return fmt.Errorf("no node answers at %s: %w", d.HTTP, err)
}

type statusCommand struct {
	door
	JSON bool `name:"json" help:"Print what the node answers."`
}

// Run prints the cluster as one of its nodes sees it.
func (c *statusCommand) Run(out io.Writer) error {
	body, err := c.ask(http.MethodGet, "/status")
	if err != nil {
		return err
	}
	if c.JSON {
		_, err := out.Write(body)
		return err
	}
	s, err := c.parse(body)
	if err != nil {
		return err
	}
	printStatus(out, s)
	return nil
}

// status is the cluster as the node sees it.
func (d door) status() (*admin.Status, error) {
	body, err := d.ask(http.MethodGet, "/status")
	if err != nil {
		return nil, err
	}
	return d.parse(body)
}

func (d door) parse(body []byte) (*admin.Status, error) {
	s := new(admin.Status)
	if err := json.Unmarshal(body, s); err != nil {
		return nil, fmt.Errorf("%s is not the HTTP address of a node: its answer is no status", d.HTTP)
	}
	return s, nil
}

func printStatus(out io.Writer, s *admin.Status) {
	fmt.Fprintf(out, "Cluster %s, schema %s\n", s.Cluster, s.Schema)
	if len(s.Nodes) == 0 {
		fmt.Fprintf(out, "One node, which stands alone: CQL at %s, data in %s, %s\n", s.CQL, s.Data, size(s.DiskBytes))
	} else {
		printNodes(out, s)
	}
	partitions := 0
	for _, t := range s.Tables {
		partitions += len(t.Partitions)
	}
	fmt.Fprintf(out, "\n%d tables in %d physical partitions\n", len(s.Tables), partitions)
	for _, note := range s.Notes {
		fmt.Fprintln(out, "Note: "+note)
	}
	if len(s.Problems) == 0 {
		fmt.Fprintln(out, "All is well.")
		return
	}
	fmt.Fprintln(out, "\nProblems:")
	for _, p := range s.Problems {
		fmt.Fprintln(out, "  "+p)
	}
}

func printNodes(out io.Writer, s *admin.Status) {
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tSTATE\tCQL\tREGION\tZONE\tREPLICAS\tLEADING\tDATA\tDISK FREE\tCLOCK\tUP\t")
	for _, n := range s.Nodes {
		free := "?"
		if n.DiskFree >= 0 {
			free = fmt.Sprintf("%d %%", n.DiskFree)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%+d ms\t%s\t\n", n.ID[:min(8, len(n.ID))], n.State, n.CQL,
			n.Region, n.Zone, n.Replicas, n.Leading,
			size(n.DiskBytes), free, n.ClockSkewMillis, (time.Duration(n.UpSeconds) * time.Second).String())
	}
	_ = w.Flush()
}

// size shows bytes in a unit that fits.
func size(b uint64) string {
	for _, u := range []struct {
		name string
		of   float64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if float64(b) >= u.of {
			return fmt.Sprintf("%.1f %s", float64(b)/u.of, u.name)
		}
	}
	return fmt.Sprintf("%d B", b)
}
