// SPDX-License-Identifier: Apache-2.0

package prose

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
)

// MaxWords is the maximum number of words in a sentence of documentation or of a comment.
const MaxWords = 40

//go:embed rules.txt
var ruleText string

//go:embed exceptions.txt
var exceptionText string

// rule rejects text that matches its pattern.
type rule struct {
	pattern *regexp.Regexp
	classes map[Class]bool // classes to which the rule applies; nil means all
	instead string
}

// Checker applies the rules of rules.txt, except where exceptions.txt allows the passage.
type Checker struct {
	rules      []rule
	exceptions map[string][]string // allowed parts of passages, by path
	used       map[string]bool     // exceptions that allowed something, as "path: text"
}

// NewChecker reads the rules and exceptions that are embedded in the package.
func NewChecker() (*Checker, error) { return newChecker(ruleText, exceptionText) }

func newChecker(rules, exceptions string) (*Checker, error) {
	c := &Checker{exceptions: map[string][]string{}, used: map[string]bool{}}
	for i, line := range content(rules) {
		if line == "" {
			continue
		}
		pattern, instead, ok := strings.Cut(line, " => ")
		if !ok {
			return nil, fmt.Errorf("rules.txt:%d: expected a pattern, \" => \", and what to write instead", i+1)
		}
		r := rule{instead: strings.TrimSpace(instead)}
		if class, rest, ok := strings.Cut(pattern, ": "); ok {
			pattern, r.classes = rest, map[Class]bool{}
			for _, name := range strings.Split(class, ",") {
				switch c := Class(name); c {
				case Documentation, Comment, Message:
					r.classes[c] = true
				default:
					return nil, fmt.Errorf("rules.txt:%d: unknown class %q", i+1, name)
				}
			}
		}
		var err error
		if r.pattern, err = regexp.Compile(`(?i)` + strings.TrimSpace(pattern)); err != nil {
			return nil, fmt.Errorf("rules.txt:%d: %w", i+1, err)
		}
		c.rules = append(c.rules, r)
	}
	for i, line := range content(exceptions) {
		if line == "" {
			continue
		}
		entry, reason, ok := strings.Cut(line, " # ")
		path, text, ok2 := strings.Cut(entry, ": ")
		if !ok || !ok2 || strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("exceptions.txt:%d: expected \"path: text # reason\"", i+1)
		}
		c.exceptions[path] = append(c.exceptions[path], strings.TrimSpace(text))
	}
	return c, nil
}

// content returns the lines of a file. content replaces comments with empty lines.
func content(text string) []string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			lines[i] = ""
		}
	}
	return lines
}

// Check returns a description of each fault of the passage.
func (c *Checker) Check(p Passage) []string {
	var faults []string
	for _, r := range c.rules {
		if r.classes != nil && !r.classes[p.Class] {
			continue
		}
		if found := r.pattern.FindString(p.Text); found != "" {
			faults = append(faults, fmt.Sprintf("%q: write %s", strings.TrimSpace(found), r.instead))
		}
	}
	if p.Class != Message {
		for _, s := range Sentences(p.Text) {
			if n := len(strings.Fields(s)); n > MaxWords {
				faults = append(faults, fmt.Sprintf("%d words in a sentence, at most %d are allowed: %.60s", n,
					MaxWords, s))
			}
		}
	}
	if faults == nil {
		return nil
	}
	for _, text := range c.exceptions[p.Path] {
		if strings.Contains(p.Text, text) {
			c.used[p.Path+": "+text] = true
			return nil
		}
	}
	return faults
}

// Unused returns the exceptions that have not allowed any passage so far.
func (c *Checker) Unused() []string {
	var unused []string
	for path, texts := range c.exceptions {
		for _, text := range texts {
			if entry := path + ": " + text; !c.used[entry] {
				unused = append(unused, entry)
			}
		}
	}
	return unused
}
