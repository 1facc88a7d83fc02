// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
)

// A file with a node state or a plan has two lines, which are a header with a digest and a JSON text. An edited file is
// rejected.
const (
	stateHead = "ilion survey 1 "
	planHead  = "ilion recovery plan 1 "
	// fileMax is the maximum size of a file.
	fileMax = 1 << 30
)

// WriteNodeState writes a node state to a file. Only the owner of the file can read it, because it contains the
// cluster's roles.
func WriteNodeState(name string, s *NodeState) error {
	_, err := write(name, stateHead, s)
	return err
}

// saveState writes a node state to a file in the directory, encrypted if the directory is encrypted.
func (d *directory) saveState(name string, s *NodeState) error {
	text, _, err := encode(stateHead, s)
	if err == nil {
		text, err = d.keys.Seal(text)
	}
	if err != nil {
		return err
	}
	return writeFile(name, text)
}

// ReadNodeState reads a file that WriteNodeState has written.
func ReadNodeState(name string) (*NodeState, error) {
	s := &NodeState{}
	_, err := read(name, stateHead, "a survey", s)
	return s, err
}

// WritePlan writes a plan and returns its digest.
func WritePlan(name string, p *Plan) (string, error) { return write(name, planHead, p) }

// ReadPlan reads a file that WritePlan has written, and returns the digest.
func ReadPlan(name string) (*Plan, string, error) {
	p := &Plan{}
	sum, err := read(name, planHead, "a recovery plan", p)
	return p, sum, err
}

func write(name, head string, v any) (string, error) {
	text, sum, err := encode(head, v)
	if err != nil {
		return "", err
	}
	return sum, writeFile(name, text)
}

// encode returns the content of a file and its digest.
func encode(head string, v any) (text []byte, sum string, err error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, "", err
	}
	hash := sha256.Sum256(body)
	return append(fmt.Appendf(nil, "%s%x\n", head, hash), append(body, '\n')...), digest(hash[:]), nil
}

func read(name, head, what string, v any) (string, error) {
	if info, err := os.Stat(name); err != nil {
		return "", err
	} else if info.Size() > fileMax {
		return "", fmt.Errorf("cannot read %s: its size of %d bytes is too large for %s", name, info.Size(), what)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	first, body, _ := bytes.Cut(b, []byte("\n"))
	want, ok := bytes.CutPrefix(first, []byte(head))
	if !ok {
		return "", fmt.Errorf("cannot read %s: the file is not %s, or another version created it", name, what)
	}
	body = bytes.TrimSuffix(body, []byte("\n"))
	sum := sha256.Sum256(body)
	if fmt.Sprintf("%x", sum) != string(want) {
		return "", fmt.Errorf("cannot read %s: the file was modified or truncated", name)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return digest(sum[:]), nil
}
