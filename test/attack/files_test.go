// SPDX-License-Identifier: Apache-2.0

//go:build integration

package attack

import (
	"crypto/tls"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ilion-db/ilion/test/process"
)

// TestFlippedManifest checks A4 after a bit of the manifest was flipped. The process must either return all rows, or
// refuse to start and name the file. The process must not remove any file. When the bit is flipped back, the process
// must start.
func TestFlippedManifest(t *testing.T) {
	v := startVictim(t)
	v.observe()
	v.until("there are rows", func() bool { return v.answered() > 100 })
	v.leave()
	v.Stop(t)
	name := theOne(t, filepath.Join(v.data, "MANIFEST-*"))
	good, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	was, refused := names(t, v.data), 0
	flips := rounds(5)
	for i := range flips {
		bad := slices.Clone(good)
		bad[i*len(bad)/flips] ^= 1 << (i % 8)
		if err := os.WriteFile(name, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := process.TryStart(t, v.data)
		if err == nil {
			v.Server = s
			v.lostNothing()
			t.Fatalf("flipping bit %d of byte %d of %s had no effect", i%8, i*len(bad)/flips, name)
		}
		if refused++; !strings.Contains(s.Stderr(), filepath.Base(name)) {
			t.Errorf("the error does not name %s: %s", filepath.Base(name), s.Stderr())
		}
		if now := names(t, v.data); !slices.Equal(now, was) {
			t.Fatalf("files changed: got %v, want %v", now, was)
		}
	}
	if err := os.WriteFile(name, good, 0o600); err != nil {
		t.Fatal(err)
	}
	v.Server = process.Start(t, v.data)
	v.lostNothing()
	t.Logf("%d starts were rejected, %d rows exist", refused, v.answered()/2)
}

// theOne returns the file that matches a pattern. theOne fails the test unless exactly one file matches.
func theOne(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	return found[0]
}

// names returns the table files and manifests of a directory.
func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".sst") || strings.HasPrefix(e.Name(), "MANIFEST") {
			out = append(out, e.Name())
		}
	}
	return out
}

// TestCertificates checks A11. A certificate can be replaced while the process runs. If the new certificate is
// damaged, the process must keep the old certificate. Existing connections must not be affected, and only the owner
// may have access to the files.
func TestCertificates(t *testing.T) {
	base := t.TempDir()
	path := func(name string) string { return filepath.Join(base, name) }
	issue := func(args ...string) {
		out, err := exec.Command(process.Binary(t), append([]string{"cert"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("ilion cert %v: %v\n%s", args, err, out)
		}
	}
	issue("authority", "--out", path("ca"))
	put := func(dir string) {
		for _, file := range []string{"node.crt", "node.key"} {
			b, err := os.ReadFile(filepath.Join(path(dir), file))
			if err == nil {
				err = os.WriteFile(path(file), b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	renew := func() {
		_ = os.RemoveAll(path("new"))
		issue("node", "--authority", path("ca"), "--out", path("new"))
		put("new")
	}
	renew()
	v := setup{
		tls:           &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the test inspects the certificate itself
		configuration: []string{"tls: {cert: " + path("node.crt") + ", key: " + path("node.key") + "}"},
	}.start(t)
	v.observe()
	for i := range rounds(3) {
		before := v.serial()
		if err := os.WriteFile(path("node.crt"), []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
		v.hangUp()
		v.until("the damage is reported", func() bool {
			return strings.Count(v.Stderr(), "certificate reload failed") > i
		})
		if now := v.serial(); now != before {
			t.Errorf("got certificate %s although its file is damaged", now)
		}
		renew()
		v.hangUp()
		v.until("the new certificate is used", func() bool { return v.serial() != before })
	}
	v.endure()
	if others := open(t, v.data); len(others) > 0 {
		t.Errorf("accessible to other users: %v", others)
	}
}

func (v *victim) hangUp() {
	if err := v.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		v.t.Fatal(err)
	}
}

// serial returns the serial number of the certificate that clients receive.
func (v *victim) serial() string {
	v.t.Helper()
	c, err := tls.Dial("tcp", v.CQL, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // inspected only
	if err != nil {
		v.t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
}
