// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Credentials authenticate requests. Session is set only for temporary credentials.
type Credentials struct{ ID, Secret, Session string }

// ErrNoCredentials reports that no credentials were found.
var ErrNoCredentials = errors.New("no S3 credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or " +
	"specify a credentials file with aws_access_key_id and aws_secret_access_key")

// FromEnvironment returns the credentials in AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, and AWS_SESSION_TOKEN. ok is
// false if no variable is set.
func FromEnvironment(getenv func(string) string) (c Credentials, ok bool, err error) {
	c = Credentials{getenv("AWS_ACCESS_KEY_ID"), getenv("AWS_SECRET_ACCESS_KEY"), getenv("AWS_SESSION_TOKEN")}
	if c == (Credentials{}) {
		return c, false, nil
	}
	if c.ID == "" || c.Secret == "" {
		return c, false, errors.New("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must be set together")
	}
	return c, true, nil
}

// FromFile reads the credentials of a profile from a file in the format of ~/.aws/credentials. FromFile is called for
// each request. If temporary credentials in the file are renewed, a backup can take longer than their lifetime.
func FromFile(path, profile string) (Credentials, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Credentials{}, ErrNoCredentials
	}
	if err != nil {
		return Credentials{}, fmt.Errorf("cannot read the credentials: %w", err)
	}
	var c Credentials
	here := false
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if name, ok := strings.CutPrefix(line, "["); ok {
			name, _, _ = strings.Cut(name, "]")
			here = strings.TrimSpace(name) == profile
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || !here || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "aws_access_key_id":
			c.ID = value
		case "aws_secret_access_key":
			c.Secret = value
		case "aws_session_token":
			c.Session = value
		}
	}
	if err := lines.Err(); err != nil {
		return c, fmt.Errorf("cannot read the credentials in %s: %w", path, err)
	}
	if c.ID == "" || c.Secret == "" {
		return c, fmt.Errorf("%s does not contain aws_access_key_id and aws_secret_access_key for the profile %s", path,
			profile)
	}
	return c, nil
}
