// SPDX-License-Identifier: Apache-2.0

package prose

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const (
	root    = "../.."
	pending = "testdata/pending.txt"
)

var rewrite = flag.Bool("rewrite", false, "write the present number of faults to "+pending)

// TestProse checks that no folder has more faults than testdata/pending.txt allows. The file lists the folders that
// have not been rewritten yet. The test also fails if a folder has fewer faults than the file lists, so the numbers in
// the file can only decrease. In this case, run the test with -rewrite.
func TestProse(t *testing.T) {
	checker, err := NewChecker()
	if err != nil {
		t.Fatal(err)
	}
	passages, err := Passages(root)
	if err != nil {
		t.Fatal(err)
	}
	faults, details := map[string]int{}, map[string][]string{}
	for _, p := range passages {
		for _, fault := range checker.Check(p) {
			key := path.Dir(p.Path) + " " + string(p.Class)
			faults[key]++
			details[key] = append(details[key], fmt.Sprintf("%s:%d: %s", p.Path, p.Line, fault))
		}
	}
	for _, entry := range checker.Unused() {
		t.Errorf("exceptions.txt: no passage needs %q", entry)
	}
	if *rewrite {
		writePending(t, faults)
		return
	}
	allowed := readPending(t)
	keys := map[string]bool{}
	for key := range faults {
		keys[key] = true
	}
	for key := range allowed {
		keys[key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		switch n := faults[key]; {
		case n > allowed[key]:
			t.Errorf("%s: %d faults, %d are allowed (rules: docs/dev/style.md)\n\t%s", key, n, allowed[key],
				strings.Join(details[key], "\n\t"))
		case n < allowed[key]:
			t.Errorf("%s: %d faults, %s allows %d: run this test with -rewrite", key, n, pending, allowed[key])
		}
	}
}

func readPending(t *testing.T) map[string]int {
	source, err := os.ReadFile(pending)
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]int{}
	for _, line := range content(string(source)) {
		if line == "" {
			continue
		}
		var folder, class string
		var n int
		if _, err := fmt.Sscanf(line, "%d %s %s", &n, &folder, &class); err != nil {
			t.Fatalf("%s: %q: %v", pending, line, err)
		}
		allowed[folder+" "+class] = n
	}
	return allowed
}

func writePending(t *testing.T, faults map[string]int) {
	var out strings.Builder
	out.WriteString("# Faults that are allowed until a folder has been rewritten: number, folder, class of passages.\n")
	for _, key := range slices.Sorted(maps.Keys(faults)) {
		fmt.Fprintf(&out, "%d %s\n", faults[key], key)
	}
	if err := os.WriteFile(pending, []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestPlanted checks that the checker rejects faulty sentences of each class and accepts their corrections.
func TestPlanted(t *testing.T) {
	checker, err := NewChecker()
	if err != nil {
		t.Fatal(err)
	}
	for _, planted := range []struct {
		class     Class
		bad, good string
	}{
		{Documentation, "What is more is refused.", "Requests above the limit are rejected."},
		{Documentation, "Nobody is told.", "No client is notified."},
		{Documentation, "The neighbour goes on.", "The neighbor continues."},
		{Comment, "Close ends what reads, for ever.", "Close stops all readers permanently."},
		{Comment, "All methods may be used, but for Close.", "All methods except Close may be used."},
		{Message, "the file is left alone", "the file was not changed"},
	} {
		if checker.Check(Passage{Class: planted.class, Text: planted.bad}) == nil {
			t.Errorf("%s: %q is accepted", planted.class, planted.bad)
		}
		if faults := checker.Check(Passage{Class: planted.class, Text: planted.good}); faults != nil {
			t.Errorf("%s: %q is rejected: %s", planted.class, planted.good, faults)
		}
	}
}

// TestExceptions checks that an exception allows only the passage that it names. It also checks that unused exceptions
// are reported.
func TestExceptions(t *testing.T) {
	checker, err := newChecker(`\banew\b => again`, "a.md: begins anew # a quotation\nb.md: anew # unused")
	if err != nil {
		t.Fatal(err)
	}
	if faults := checker.Check(Passage{Path: "a.md", Text: "It begins anew."}); faults != nil {
		t.Errorf("rejected: %s", faults)
	}
	if checker.Check(Passage{Path: "a.md", Text: "It starts anew."}) == nil {
		t.Error("the exception of another passage applies")
	}
	if unused := checker.Unused(); len(unused) != 1 || unused[0] != "b.md: anew" {
		t.Errorf("unused exceptions: %q", unused)
	}
}

// TestPassages checks which parts of a page and of a Go file count as passages.
func TestPassages(t *testing.T) {
	page := "# A title\n\nTwo lines\nof [text](x.md) with `code`.\n\n```sh\nnot prose\n```\n\n" +
		"| a | b |\n|---|---|\n| one | two |\n\n- an item\n"
	got := fmt.Sprint(texts(markdownPassages("x.md", page)))
	if want := "[A title|Two lines of text with CODE.|a|b|one|two|an item]"; got != want {
		t.Errorf("page: %s, want %s", got, want)
	}
	source := "// SPDX-License-Identifier: x\n\n// Package p does\n// things.\n//\n//\ta drawing\n//\n// More.\npackage p\n\n" +
		"//go:generate x\n\nconst a, b, c = \"cannot open the file\", \"SELECT a FROM b\", \"short\"\n"
	found, err := goPassages("p/p.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(texts(found)), "[Package p does things.|More.|cannot open the file]"; got != want {
		t.Errorf("file: %s, want %s", got, want)
	}
}

func texts(passages []Passage) string {
	var all []string
	for _, p := range passages {
		all = append(all, p.Text)
	}
	return "[" + strings.Join(all, "|") + "]"
}

// TestSentences checks that sentences end at their periods and not at the periods of abbreviations.
func TestSentences(t *testing.T) {
	got := Sentences("One thing, e.g. this. Another (in brackets). And a third")
	if want := []string{"One thing, e.g. this.", "Another (in brackets).", "And a third"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestMarkdownWidth checks that prose in Markdown wraps at 100 columns. Tables, links, and code may be wider.
func TestMarkdownWidth(t *testing.T) {
	checkWidth(t, 100)
}

// TestCommitSubjects checks the subjects of the commits since testdata/since.txt. A subject has the form "area: do
// something" and up to 72 characters.
func TestCommitSubjects(t *testing.T) {
	since, err := os.ReadFile("testdata/since.txt")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "git", "log", "--no-merges", "--format=%s",
		strings.TrimSpace(string(since))+"..HEAD")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Skip("the history is not available: ", err)
	}
	checker, err := NewChecker()
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		if len(subject) > 72 {
			t.Errorf("%q has %d characters, at most 72 are allowed", subject, len(subject))
		}
		_, text, ok := strings.Cut(subject, ": ")
		if subject != "" && (!ok || text == "" || strings.HasSuffix(text, ".")) {
			t.Errorf("%q: write \"area: do something\", without a period", subject)
		}
		for _, fault := range checker.Check(Passage{Class: Message, Path: "commits", Text: subject}) {
			t.Errorf("%q: %s", subject, fault)
		}
	}
}
