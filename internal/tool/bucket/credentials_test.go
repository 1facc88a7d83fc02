// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCredentials checks that credentials are read from the environment and from the profiles in a file. Incomplete
// credentials must be rejected.
func TestCredentials(t *testing.T) {
	env := map[string]string{"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "s"}
	get := func(name string) string { return env[name] }
	if c, ok, err := FromEnvironment(get); err != nil || !ok || c != (Credentials{"id", "secret", "s"}) {
		t.Errorf("the environment has %v %v: %v", c, ok, err)
	}
	delete(env, "AWS_SECRET_ACCESS_KEY")
	if _, _, err := FromEnvironment(get); err == nil {
		t.Error("a key without its secret was accepted")
	}
	clear(env)
	if _, ok, err := FromEnvironment(get); ok || err != nil {
		t.Errorf("an empty environment has credentials: %v", err)
	}
	path := filepath.Join(t.TempDir(), "credentials")
	text := "# mine\n[default]\naws_access_key_id = a\naws_secret_access_key=b=\n\n[other]\nAWS_ACCESS_KEY_ID=c\n" +
		"aws_secret_access_key = d\naws_session_token = e\n[half]\naws_access_key_id = f\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for profile, want := range map[string]Credentials{"default": {"a", "b=", ""}, "other": {"c", "d", "e"}} {
		if c, err := FromFile(path, profile); err != nil || c != want {
			t.Errorf("profile %s is %v, want %v: %v", profile, c, want, err)
		}
	}
	for _, profile := range []string{"half", "none"} {
		if _, err := FromFile(path, profile); err == nil {
			t.Errorf("profile %s was accepted", profile)
		}
	}
	if _, err := FromFile(path+"x", "default"); err == nil || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") {
		t.Errorf("a missing file: %v", err)
	}
}
