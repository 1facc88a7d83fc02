// SPDX-License-Identifier: Apache-2.0

package options

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Load reads a configuration file into o. The error for an unknown key contains its name and line.
func Load(path string, o *Options) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("configuration file: %w", err)
	}
	source, o.Deprecations, err = currentNames(source)
	if err != nil {
		return fmt.Errorf("configuration file %s: %w", path, err)
	}
	d := yaml.NewDecoder(bytes.NewReader(source))
	d.KnownFields(true)
	err = d.Decode(o)
	if err == nil && !errors.Is(d.Decode(new(yaml.Node)), io.EOF) {
		err = errors.New("more than one document")
	}
	if err != nil && !errors.Is(err, io.EOF) {
		text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n")
		text = unknownField.ReplaceAllString(text, `unknown key "$1"`)
		return fmt.Errorf("configuration file %s: %s", path, strings.Join(strings.Fields(text), " "))
	}
	return nil
}

// unknownField matches the error of the YAML package for an unknown key.
var unknownField = regexp.MustCompile(`field (\S+) not found in type \S+`)
