// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/node/options"
)

// TestOpenSecretsAreLogged checks that a node logs the path of a secret file that other users of the machine can read.
// It must not log files that other users cannot read.
func TestOpenSecretsAreLogged(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes")
	}
	secret := filepath.Join(t.TempDir(), "secret")
	for mode, warned := range map[os.FileMode]bool{0o600: false, 0o640: true, 0o604: true} {
		if err := os.WriteFile(secret, []byte(strings.Repeat("x", 40)), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(secret, mode); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		o := &options.Options{Cluster: options.Cluster{JoinSecretFile: secret}}
		if _, err := Load(o, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Fatal(err)
		}
		text := log.String()
		got := strings.Contains(text, "other users of this machine can read") && strings.Contains(text, secret)
		if got != warned {
			t.Errorf("mode %o: %q", mode, log.String())
		}
	}
}
