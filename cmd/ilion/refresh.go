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

// watched are the options of commands that show something: once, or again and again until Ctrl-C.
type watched struct {
	JSON  bool  `name:"json" help:"Print JSON; with --watch, one document per line"`
	Watch pause `name:"watch" placeholder:"TIME" help:"Refresh until Ctrl-C, every 2s or every --watch=TIME"`
}

// pause is the time between two looks; 0: there is one look alone. The flag takes a value behind an equal sign only.
type pause time.Duration

const (
	pauseUsual pause = pause(2 * time.Second)
	// pauseMin is the shortest: a look may ask all nodes.
	pauseMin = 200 * time.Millisecond
)

// IsBool implements kong.BoolMapperValue: --watch needs no value.
func (*pause) IsBool() bool { return true }

// Decode reads the value of --watch.
func (p *pause) Decode(ctx *kong.DecodeContext) error {
	if ctx.Scan.Peek().Type != kong.FlagValueToken {
		*p = pauseUsual
		return nil
	}
	text := fmt.Sprint(ctx.Scan.Pop().Value)
	d, err := time.ParseDuration(text)
	if err != nil || d < pauseMin {
		return fmt.Errorf("%q is no time between two looks: give one like 5s, of %v or more", text, pauseMin)
	}
	*p = pause(d)
	return nil
}

// look is what a command asks for, each time anew: a document, and how it is written for people.
type look func(ctx context.Context) (document any, text func(io.Writer), err error)

// show prints what a command asks for: as text, of which a screen shows as much as it has room for, or as JSON.
func (w watched) show(out io.Writer, ask look) error {
	ctx := context.Background()
	if w.Watch == 0 {
		return w.once(ctx, out, ask)
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
		text, err := w.rendered(ctx, ask)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err // a mistake, or nobody is there
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

// failed says that a look failed, where the one before did not.
func (w watched) failed(err error) []byte {
	if !w.JSON {
		return []byte(printable(err.Error()) + "\n")
	}
	line, _ := json.Marshal(map[string]string{"error": err.Error()})
	return append(harmless(line), '\n')
}

func (w watched) once(ctx context.Context, out io.Writer, ask look) error {
	text, err := w.rendered(ctx, ask)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// rendered is one look as it is printed.
func (w watched) rendered(ctx context.Context, ask look) ([]byte, error) {
	document, text, err := ask(ctx)
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
	return harmless(b.Bytes()), err
}

// harmless escapes what a terminal could obey in a JSON document, and what JSON leaves as it is.
func harmless(document []byte) []byte {
	return []byte(escaped(string(document)))
}

func escaped(s string) string {
	if strings.IndexFunc(s, obeyed) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !obeyed(r):
			b.WriteRune(r)
		case r > 0xffff:
			b.WriteString("\ufffd")
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// obeyed reports whether a terminal may do something else for a rune than show it.
func obeyed(r rune) bool {
	return r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp))
}

// lines is a text without control characters but the ends of its lines.
func lines(text string) string {
	return strings.Map(func(r rune) rune {
		if obeyed(r) {
			return '?'
		}
		return r
	}, text)
}

// printable is a text on one line, without control characters: names are what clients wrote, and a terminal would obey
// them.
func printable(line string) string { return strings.ReplaceAll(lines(line), "\n", "?") }

// redraw writes a text over what is on the screen, in one piece and without clearing it first, so that nothing
// flickers.
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

// table writes rows below a head, of which no cell leaves its column whatever is in it.
type table struct{ w *tabwriter.Writer }

func newTable(out io.Writer, head ...string) table {
	t := table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	fmt.Fprintln(t.w, strings.Join(head, "\t"))
	return t
}

// row adds a row. An empty cell is a dash.
func (t table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		if texts[i] = printable(fmt.Sprint(c)); texts[i] == "" {
			texts[i] = "-"
		}
	}
	fmt.Fprintln(t.w, strings.Join(texts, "\t"))
}

func (t table) end() { _ = t.w.Flush() } // a buffer takes everything

// silences says which nodes did not answer.
func silences(out io.Writer, silent []string) {
	for _, node := range silent {
		fmt.Fprintf(out, "No answer from node %s: what it knows is missing.\n", printable(node))
	}
}
