// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
)

// Surveys and plans are files of two lines: a head, and JSON whose digest the head has. Whoever changes one by hand has
// it refused.
const (
	stateHead = "ilion survey 1 "
	planHead  = "ilion recovery plan 1 "
	// fileMax bounds a file that is read.
	fileMax = 1 << 30
)

// WriteNodeState writes a survey to a file for its owner alone: the cluster's roles are in it.
func WriteNodeState(name string, s *NodeState) error {
	_, err := write(name, stateHead, s)
	return err
}

// ReadNodeState reads what WriteSurvey wrote.
func ReadNodeState(name string) (*NodeState, error) {
	s := &NodeState{}
	_, err := read(name, stateHead, "a survey", s)
	return s, err
}

// WritePlan writes a plan, and returns the digest by which it is known.
func WritePlan(name string, p *Plan) (string, error) { return write(name, planHead, p) }

// ReadPlan reads what WritePlan wrote.
func ReadPlan(name string) (*Plan, string, error) {
	p := &Plan{}
	sum, err := read(name, planHead, "a plan", p)
	return p, sum, err
}

func write(name, head string, v any) (string, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(body)
	return digest(sum[:]), writeFile(name, append(fmt.Appendf(nil, "%s%x\n", head, sum), append(body, '\n')...))
}

func read(name, head, what string, v any) (string, error) {
	if info, err := os.Stat(name); err != nil {
		return "", err
	} else if info.Size() > fileMax {
		return "", fmt.Errorf("%s has %d bytes, more than %s can have", name, info.Size(), what)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	first, body, _ := bytes.Cut(b, []byte("\n"))
	want, ok := bytes.CutPrefix(first, []byte(head))
	if !ok {
		return "", fmt.Errorf("%s is not %s of this build", name, what)
	}
	body = bytes.TrimSuffix(body, []byte("\n"))
	sum := sha256.Sum256(body)
	if fmt.Sprintf("%x", sum) != string(want) {
		return "", fmt.Errorf("%s was changed, or cut off, since it was written", name)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return digest(sum[:]), nil
}
