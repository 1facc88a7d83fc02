// SPDX-License-Identifier: Apache-2.0

package shell_test

import (
	"context"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/internal/tool/shell"
	"github.com/ilion-db/ilion/internal/tool/shell/display"
)

var against = flag.String("against", "", "host:port of a server to run against, such as Cassandra, instead of a node")

// server returns the address of a server without the keyspace shop.
func server(t *testing.T) string {
	t.Helper()
	addr := *against
	if addr == "" {
		db, err := ilion.Start(t.Context(), ilion.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() }) // the data is discarded, so an error does not matter
		addr = db.CQLAddr().String()
	}
	dropped := open(t, shell.Options{Addr: addr, Out: io.Discard})
	if err := dropped.Run(t.Context(), strings.NewReader("DROP KEYSPACE IF EXISTS shop"), ""); err != nil {
		t.Fatal(err)
	}
	return addr
}

func open(t *testing.T, o shell.Options) *shell.Shell {
	t.Helper()
	o.Consistency = dberr.One
	if o.Err == nil {
		o.Err = io.Discard
	}
	s, err := shell.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// typist is an Editor that returns predefined lines. It records prompts and answers.
type typist struct {
	lines      []string
	out        *strings.Builder
	remembered []string
}

func (p *typist) Line(prompt string) (string, error) {
	p.out.WriteString(prompt)
	if len(p.lines) == 0 {
		return "", io.EOF
	}
	line := p.lines[0]
	p.lines = p.lines[1:]
	p.out.WriteString(line + "\n")
	if strings.HasSuffix(line, "^C") {
		return "", shell.ErrInterrupted
	}
	return line, nil
}

func (p *typist) Secret(prompt string) (string, error) {
	p.out.WriteString(prompt + "\n")
	return "guess", nil
}

func (p *typist) Remember(line string) { p.remembered = append(p.remembered, line) }

// varying matches text that differs between runs.
var varying = regexp.MustCompile(`127\.0\.0\.1:\d+|[0-9a-f]{8}-e[0-9a-f]{3}-11[0-9a-f-]+|after \d+ us|127\.0\.0\.1 \| +\d+`)

// TestTranscripts checks the output of the shell in testdata/*.txt. The command run compares the output for a file.
// The output includes the error that ends it. The command type compares the output for lines that a user types. The
// text ^C at the end of a line represents Ctrl-C.
func TestTranscripts(t *testing.T) {
	addr := server(t)
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if filepath.Ext(path) != ".txt" || *against != "" && strings.HasSuffix(path, "unlike_cassandra.txt") {
			t.Skip()
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			o := shell.Options{Addr: addr, Out: &out, Err: &out}
			format := ""
			d.MaybeScanArgs(t, "format", &format)
			d.MaybeScanArgs(t, "keyspace", &o.Keyspace)
			o.Format, o.Color = display.Format(format), d.HasArg("color")
			s := open(t, o)
			switch d.Cmd {
			case "run":
				if err := s.Run(t.Context(), strings.NewReader(d.Input), "file"); err != nil {
					out.WriteString("error: " + err.Error() + "\n")
				}
			case "type":
				p := &typist{lines: strings.Split(d.Input, "\n"), out: &out}
				if err := s.Interact(t.Context(), p); err != nil {
					out.WriteString("error: " + err.Error() + "\n")
				}
				for _, line := range p.remembered {
					out.WriteString("remembered: " + line + "\n")
				}
			default:
				d.Fatalf(t, "unknown directive %s", d.Cmd)
			}
			return varying.ReplaceAllString(strings.ReplaceAll(out.String(), "\x1b", "^["), "...")
		})
	})
}

// TestDocument checks that the shell produces the transcript in docs/shell.md.
func TestDocument(t *testing.T) {
	if *against != "" {
		t.Skip("shows features specific to Ilion")
	}
	page, err := os.ReadFile("../../../docs/shell.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "$ ilion shell\n")
	want, _, end := strings.Cut(rest, "```")
	if !ok || !end {
		t.Fatal("the page has no transcript")
	}
	var out strings.Builder
	p := &typist{out: &out}
	typed := regexp.MustCompile(`^(?:ilion(?::\w+)?> | *\.\.\. |--MORE-- .*\) )(.*)\n`)
	for line := range strings.Lines(want) {
		if m := typed.FindStringSubmatch(line); m != nil {
			p.lines = append(p.lines, m[1])
		}
	}
	addr := server(t)
	if err := open(t, shell.Options{Addr: addr, Out: &out, Err: &out}).Interact(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(out.String(), addr, "127.0.0.1:9042")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the page differs from the output (-page +output):\n%s\ncomplete output:\n%s", diff, got)
	}
}

// TestCancel checks that a statement ends when it is canceled while it waits for a response. The next statement must
// have a connection in the same keyspace.
func TestCancel(t *testing.T) {
	addr := server(t)
	var out strings.Builder
	s := open(t, shell.Options{Addr: addr, Out: &out, Client: rawclient.Options{}})
	run := func(ctx context.Context, text string) error { return s.Run(ctx, strings.NewReader(text), "") }
	if err := run(t.Context(), "USE system"); err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(canceled, "SELECT key FROM local"); err == nil || !strings.Contains(err.Error(), "cancel") {
		t.Errorf("canceled: %v", err)
	}
	if err := run(t.Context(), "SELECT key FROM local"); err != nil || !strings.Contains(out.String(), "(1 rows)") {
		t.Errorf("after the cancellation: %v, %s", err, out.String())
	}
}

// TestComplete checks that completion offers names of the server's schema. They include names in system keyspaces and
// names that were just created.
func TestComplete(t *testing.T) {
	addr := server(t)
	s := open(t, shell.Options{Addr: addr, Out: io.Discard})
	if _, words, _ := s.Complete("SELECT * FROM system.peers_", 27); len(words) != 1 || words[0] != "peers_v2 " {
		t.Errorf("a system table: %q", words)
	}
	err := s.Run(t.Context(), strings.NewReader("CREATE KEYSPACE shop WITH replication = "+
		"{'class': 'SimpleStrategy', 'replication_factor': 1};\n"+
		"CREATE TABLE shop.orders (id int PRIMARY KEY, placed int)"), "")
	if err != nil {
		t.Fatal(err)
	}
	head, words, tail := s.Complete("SELECT pl FROM shop.orders", 9)
	if head != "SELECT " || tail != " FROM shop.orders" || len(words) != 1 || words[0] != "placed" {
		t.Errorf("a column: %q %q %q", head, words, tail)
	}
}
