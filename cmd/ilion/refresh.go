// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/alecthomas/kong"
	"golang.org/x/term"
)

// refreshOptions holds the options of commands that print a report once or repeatedly until Ctrl-C.
type refreshOptions struct {
	JSON  bool            `name:"json" help:"Print JSON; with --watch, one document per line"`
	Watch refreshInterval `name:"watch" placeholder:"TIME" help:"Refresh until Ctrl-C, every 2s or every --watch=TIME"`
}

// refreshInterval is the time between two reports. If the interval is 0, the report is printed only once. The value of
// the flag must follow an equal sign.
type refreshInterval time.Duration

const (
	refreshDefault refreshInterval = refreshInterval(2 * time.Second)
	// refreshMin is the minimum interval. The interval is limited because each report may send requests to all nodes.
	refreshMin = 200 * time.Millisecond
)

// IsBool implements kong.BoolMapperValue, because the value of --watch is optional.
func (*refreshInterval) IsBool() bool { return true }

// Decode reads the value of --watch.
func (p *refreshInterval) Decode(ctx *kong.DecodeContext) error {
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		*p = refreshDefault
		return nil
	}
	text := fmt.Sprint(ctx.Scan.Pop().Value)
	d, err := time.ParseDuration(text)
	if err != nil || d < refreshMin {
		return fmt.Errorf("invalid interval %q: expected a duration such as 5s, at least %v", text, refreshMin)
	}
	*p = refreshInterval(d)
	return nil
}

// fetcher fetches a report. It returns the document for JSON output and a function that prints the report as text.
type fetcher func(ctx context.Context) (document any, text func(io.Writer), err error)

// show prints a report once or repeatedly, as text or JSON. On a terminal, repeated reports are truncated to the size
// of the screen.
func (w refreshOptions) show(out io.Writer, request fetcher) error {
	ctx := context.Background()
	if w.Watch == 0 {
		return w.once(ctx, out, request)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	screen, ok := out.(*os.File)
	if ok = ok && !w.JSON && term.IsTerminal(int(screen.Fd())); ok {
		if _, err := io.WriteString(out, enterScreen); err != nil {
			return err
		}
		defer func() { _, _ = io.WriteString(out, leaveScreen) }()
	}
	for first := true; ; first = false {
		text, err := w.rendered(ctx, request)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err // a usage error or an unreachable node
		case err != nil:
			text = w.failed(err)
		}
		if ok {
			err = redraw(screen, text)
		} else {
			if !first && !w.JSON {
				text = append([]byte("\n"), text...)
			}
			_, err = out.Write(text)
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Duration(w.Watch)):
		}
	}
}

// failed returns the output for a report that failed after an earlier report had succeeded.
func (w refreshOptions) failed(err error) []byte {
	if !w.JSON {
		return []byte(printable(err.Error()) + "\n")
	}
	line, _ := json.Marshal(map[string]string{"error": err.Error()})
	return append(escapeJSON(line), '\n')
}

func (w refreshOptions) once(ctx context.Context, out io.Writer, request fetcher) error {
	text, err := w.rendered(ctx, request)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// rendered returns the output of one report.
func (w refreshOptions) rendered(ctx context.Context, request fetcher) ([]byte, error) {
	document, text, err := request(ctx)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if !w.JSON {
		text(&b)
		return []byte(lines(b.String())), nil
	}
	enc := json.NewEncoder(&b)
	if w.Watch == 0 {
		enc.SetIndent("", "  ")
	}
	err = enc.Encode(document)
	return escapeJSON(b.Bytes()), err
}

// escapeJSON escapes characters that JSON does not escape but that a terminal could interpret.
func escapeJSON(document []byte) []byte {
	return []byte(escapeControl(string(document)))
}

func escapeControl(s string) string {
	if strings.IndexFunc(s, isControl) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !isControl(r):
			b.WriteRune(r)
		case r > 0xffff:
			b.WriteString("\ufffd")
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// isControl reports whether a terminal may interpret a rune instead of displaying it.
func isControl(r rune) bool {
	return r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp))
}

// lines replaces all control characters of a text except line feeds.
func lines(text string) string {
	return strings.Map(func(r rune) rune {
		if isControl(r) {
			return '?'
		}
		return r
	}, text)
}

// printable returns a text on one line without control characters. Names from clients may contain control characters,
// which a terminal would interpret.
func printable(line string) string { return strings.ReplaceAll(lines(line), "\n", "?") }

// redraw overwrites the screen with a text. To avoid flicker, it uses a single write and does not clear the screen
// first.
func redraw(screen *os.File, text []byte) error {
	width, height, err := term.GetSize(int(screen.Fd()))
	if err != nil {
		return err
	}
	return drawLines(screen, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), width, height)
}

func drawLines(screen io.Writer, list []string, width, height int) error {
	b := []byte(home)
	for _, line := range list[:min(len(list), max(height, 1))] {
		b = append(append(b, cutTo(line, width)...), endOfLine...)
	}
	_, err := screen.Write(append(b[:len(b)-len("\r\n")], endOfScreen...))
	return err
}

// table prints rows in aligned columns below a heading. Control characters in cells are replaced.
type table struct{ w *tabwriter.Writer }

func newTable(out io.Writer, head ...string) table {
	t := table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	fmt.Fprintln(t.w, strings.Join(head, "\t"))
	return t
}

// row adds a row. An empty cell is printed as a dash.
func (t table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		if texts[i] = printable(fmt.Sprint(c)); texts[i] == "" {
			texts[i] = "-"
		}
	}
	fmt.Fprintln(t.w, strings.Join(texts, "\t"))
}

func (t table) end() { _ = t.w.Flush() } // writes to a buffer cannot fail

// printUnreachable lists the nodes that did not respond.
func printUnreachable(out io.Writer, silent []string) {
	for _, node := range silent {
		fmt.Fprintf(out, "Node %s did not respond; its data is missing.\n", printable(node))
	}
}
