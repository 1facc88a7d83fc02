// SPDX-License-Identifier: Apache-2.0

//go:build integration

// Package deploy checks the files in deploy/ for orchestrators and monitoring. They must name only existing options,
// HTTP endpoints, and metrics.
package deploy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/ilion-db/ilion/test/process"
)

const root = "../../deploy"

func TestMain(m *testing.M) { process.Main(m) }

// documents returns the objects in all YAML files of a folder.
func documents(t *testing.T, folder string) (out []map[string]any) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, folder, "*.yaml"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: no files (%v)", folder, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
			var one map[string]any
			if err := d.Decode(&one); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			out = append(out, one)
		}
	}
	return out
}

// texts yields every string in a tree of YAML or JSON, including keys.
func texts(tree any, yield func(string)) {
	switch v := tree.(type) {
	case string:
		yield(v)
	case []any:
		for _, e := range v {
			texts(e, yield)
		}
	case map[string]any:
		for k, e := range v {
			yield(k)
			texts(e, yield)
		}
	}
}

// TestOptions checks that `ilion start` accepts every option and every variable that the manifests, the compose file,
// the image, and the unit pass to a node.
func TestOptions(t *testing.T) {
	t.Parallel()
	help, err := process.Command(t, "start", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Join(strings.Fields(string(help)), " ")
	option := regexp.MustCompile(`^--([a-z-]+)`)
	variable := regexp.MustCompile(`^ILION_[A-Z_]+$`)
	seen := 0
	look := func(text string) {
		if m := option.FindStringSubmatch(text); m != nil {
			if seen++; !strings.Contains(known, "--"+m[1]) {
				t.Errorf("%q is not an option of ilion start", m[0])
			}
		}
		if variable.MatchString(text) {
			if seen++; !strings.Contains(known, "($"+text+")") {
				t.Errorf("%s is not read by ilion start", text)
			}
		}
	}
	for _, folder := range []string{"kubernetes", "compose"} {
		for _, d := range documents(t, folder) {
			texts(d, look)
		}
	}
	words := regexp.MustCompile(`[\s="\[\],]+`)
	for _, name := range []string{"docker/Dockerfile", "systemd/ilion.service"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "ENV") || strings.HasPrefix(line, "ExecStart") {
				for _, word := range words.Split(line, -1) {
					look(word)
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("found only %d options: the test searches the wrong files", seen)
	}
}

// TestProbes checks that the probes request existing pages through ports of the container.
func TestProbes(t *testing.T) {
	t.Parallel()
	s := process.Start(t, t.TempDir())
	for _, d := range documents(t, "kubernetes") {
		if d["kind"] != "StatefulSet" {
			continue
		}
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var set struct {
			Spec struct {
				Template struct {
					Spec struct {
						Containers []map[string]json.RawMessage
					}
				}
			}
		}
		if err := json.Unmarshal(text, &set); err != nil {
			t.Fatal(err)
		}
		c := set.Spec.Template.Spec.Containers[0]
		for _, probe := range []string{"startupProbe", "readinessProbe", "livenessProbe"} {
			var p struct{ HTTPGet struct{ Path, Port string } }
			if err := json.Unmarshal(c[probe], &p); err != nil {
				t.Fatalf("%s: %v", probe, err)
			}
			if !strings.Contains(string(c["ports"]), `"`+p.HTTPGet.Port+`"`) {
				t.Errorf("%s: the container has no port %q", probe, p.HTTPGet.Port)
			}
			answer, err := http.Get("http://" + s.HTTP + p.HTTPGet.Path)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				t.Errorf("%s: %s returned %s", probe, p.HTTPGet.Path, answer.Status)
			}
		}
		return
	}
	t.Error("found no StatefulSet")
}

// ofCertificates is the name of a metric that exists only on nodes with certificates.
const ofCertificates = "ilion_certificate_expiry_timestamp_seconds"

// TestMetrics checks that the alert rules and the dashboard name existing metrics.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s := process.Start(t, t.TempDir(), "--internal", "127.0.0.1:0", "--bootstrap")
	client := s.Dial(t)
	process.Do(t, client, "SELECT key FROM system.local") // some metrics exist only after the first request
	client.Close()
	answer, err := http.Get("http://" + s.HTTP + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	dashboard, err := os.ReadFile(filepath.Join(root, "grafana/ilion.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board map[string]any
	if err := json.Unmarshal(dashboard, &board); err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`\b(ilion|process)_[a-z_]+`)
	seen := map[string]bool{}
	look := func(text string) {
		for _, m := range name.FindAllString(text, -1) {
			if seen[m] = true; m != ofCertificates && !bytes.Contains(metrics, []byte("\n"+m)) {
				t.Errorf("%s is not a metric of a node", m)
			}
		}
	}
	texts(board, look)
	for _, d := range documents(t, "prometheus") {
		texts(d, look)
	}
	if len(seen) < 20 {
		t.Errorf("found only %d metrics: the test searches the wrong files", len(seen))
	}
}

// TestCompletion checks that bash accepts the completion script. The script must complete commands, options, and their
// values.
func TestCompletion(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	script, err := process.Command(t, "completion", "bash").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ line, want string }{
		{"ilion part", "partition"},
		{"ilion partition sp", "split"},
		{"ilion start --log-l", "--log-level"},
		{"ilion start --log-level w", "warn"},
		{"ilion completion --insec", ""},
	} {
		body := string(script) + "COMP_WORDS=(" + c.line + "); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _ilion; echo ${COMPREPLY[@]}\n"
		cmd := exec.CommandContext(t.Context(), bash, "--norc")
		cmd.Stdin = strings.NewReader(body)
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != c.want {
			t.Errorf("%q: %q (%v), want %q", c.line, got, err, c.want)
		}
	}
}
