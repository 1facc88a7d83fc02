// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/tool/backup"
)

type backupCommand struct {
	Make    backupMakeCommand    `cmd:"" default:"withargs" name:"make" help:"Create a backup of a running cluster (default)"`
	List    backupListCommand    `cmd:"" help:"List the backups in a repository"`
	Verify  backupVerifyCommand  `cmd:"" help:"Check the files of all backups and of the archive"`
	Archive backupArchiveCommand `cmd:"" help:"Archive changes continuously for point-in-time restore"`
	Prune   backupPruneCommand   `cmd:"" help:"Delete old backups, old archive data, and unreferenced files"`
	Key     backupKeyCommand     `cmd:"" help:"Generate an encryption key"`
}

// transferOptions holds the options for file transfers.
type transferOptions struct {
	Parallel int  `name:"parallel" default:"4" placeholder:"N" help:"Number of concurrent transfers (default ${default})"`
	RateMB   int  `name:"rate" default:"50" placeholder:"MB" help:"Maximum read rate in MB/s; 0 means unlimited (default ${default})"`
	Quiet    bool `name:"quiet" help:"Do not show progress"`
}

func (t *transferOptions) check() error {
	if t.Parallel < 1 || t.Parallel > 64 || t.RateMB < 0 {
		return &usageError{"invalid --parallel or --rate: expected --parallel from 1 to 64, and --rate of at least 0"}
	}
	return nil
}

type backupMakeCommand struct {
	adminClient
	transferOptions
	storageURL
	To string `name:"to" required:"" env:"ILION_BACKUP" placeholder:"PLACE" help:"Repository: a directory or s3://BUCKET/PREFIX"`
}

// Run creates a backup.
func (c *backupMakeCommand) Run(out io.Writer) error {
	if err := c.transferOptions.check(); err != nil {
		return err
	}
	ctx, stop := interrupted()
	defer stop()
	target, err := c.storageURL.open(ctx, c.To, true)
	if err != nil {
		return err
	}
	shown := &progressLine{out: os.Stderr, quiet: c.Quiet, word: "read"}
	k := &backup.Maker{Node: &nodeClient{adminClient: &c.adminClient}, Target: target, Parallel: c.Parallel,
		Rate: int64(c.RateMB) * 1e6, Display: shown, Clock: sched.SystemClock}
	began := time.Now()
	m, taken, err := k.Make(ctx)
	shown.end()
	if err != nil {
		return err
	}
	p := shown.last
	fmt.Fprintf(out, "backup %s: cluster state as of %s\n", m.ID, m.Time.Format("2006-01-02 15:04:05.000 MST"))
	fmt.Fprintf(out, "%s in %s, %d of them new (%s stored), in %s; writes paused for %s\n", sizeText(p.Done),
		plural(p.Files, "file"), p.Sent, sizeText(p.SentBytes), time.Since(began).Round(time.Millisecond),
		taken.WritePause.Round(100*time.Microsecond))
	return nil
}

type backupListCommand struct {
	storageURL
	From string `arg:"" name:"from" placeholder:"PLACE" help:"Repository: a directory or s3://BUCKET/PREFIX"`
	JSON bool   `name:"json" help:"Print one JSON manifest per line"`
}

// Run lists the backups.
func (c *backupListCommand) Run(out io.Writer) error {
	ctx, stop := interrupted()
	defer stop()
	target, err := c.storageURL.open(ctx, c.From, false)
	if err != nil {
		return err
	}
	ids, err := backup.List(ctx, target)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if !c.JSON {
		fmt.Fprintln(w, "backup\tsnapshot\ttables\tfiles\tsize\tcluster\tsoftware")
	}
	for _, id := range ids {
		m, err := backup.Load(ctx, target, id)
		if err != nil {
			return err
		}
		if c.JSON {
			line, err := json.Marshal(m)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "%s\n", escapeJSON(line))
			continue
		}
		files, size := 0, int64(0)
		m.Files(func(f archive.File) { files++; size += f.Bytes })
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%s\t%s\n", m.ID, m.Time.Format("2006-01-02 15:04:05.000"),
			max(len(m.Tables)-1, 0), files, sizeText(size), m.Cluster, printable(m.Software))
	}
	log, err := backup.LoadLog(ctx, target)
	if err != nil || c.JSON {
		return err
	}
	return errors.Join(w.Flush(), printArchive(out, log))
}

type backupVerifyCommand struct {
	storageURL
	From    string `arg:"" name:"from" placeholder:"PLACE" help:"Repository: a directory or s3://BUCKET/PREFIX"`
	ID      string `arg:"" name:"id" optional:"" placeholder:"BACKUP" help:"Backup to verify (default: all)"`
	Restore bool   `name:"restore" help:"Also restore the newest backup into a temporary node and compare rows"`
	Scratch string `name:"scratch" placeholder:"DIR" help:"Directory for the temporary node (default: the system's temporary directory)"`
	Quiet   bool   `name:"quiet" help:"Do not show progress"`
}

// Run verifies backups and the archive.
func (c *backupVerifyCommand) Run(out io.Writer) error {
	if c.Scratch != "" && !c.Restore {
		return &usageError{"--scratch requires --restore"}
	}
	ctx, stop := interrupted()
	defer stop()
	target, err := c.storageURL.open(ctx, c.From, false)
	if err != nil {
		return err
	}
	list, err := c.chosen(ctx, target)
	if err != nil {
		return err
	}
	shown := &progressLine{out: os.Stderr, quiet: c.Quiet, word: "verified"}
	check := &backup.Checker{Target: target, Display: shown}
	var failed []error
	for _, m := range list {
		err := check.Check(ctx, m)
		shown.end()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("backup %s: %w", m.ID, err))
			continue
		}
		fmt.Fprintf(out, "backup %s: all files are intact\n", m.ID)
	}
	fmt.Fprintf(out, "%s with %s, %s\n", plural(len(list), "backup"), plural(shown.last.Files, "distinct file"),
		sizeText(shown.last.Done))
	failed = append(failed, verifyLog(ctx, out, target, shown))
	if err := errors.Join(failed...); err != nil || !c.Restore {
		return err
	}
	s := &verifyNode{dir: c.Scratch, target: target, manifest: list[len(list)-1], quiet: c.Quiet, out: out}
	return s.verify(ctx)
}

// chosen returns the backup with the given ID, or all backups in chronological order.
func (c *backupVerifyCommand) chosen(ctx context.Context, target backup.Target) (list []*archive.Manifest, err error) {
	ids := []string{c.ID}
	if c.ID == "" {
		if ids, err = backup.List(ctx, target); err != nil {
			return nil, err
		}
	}
	for _, id := range ids {
		m, err := backup.Load(ctx, target, id)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	if len(list) == 0 {
		return nil, errors.New("cannot find a backup: the repository contains no complete backup. Check the path, or create a backup")
	}
	return list, nil
}

// verifyLog verifies the archive of a repository, if any.
func verifyLog(ctx context.Context, out io.Writer, target backup.Target, shown *progressLine) error {
	log, err := backup.LoadLog(ctx, target)
	if err != nil || len(log.Chains) == 0 {
		return err
	}
	err = log.Verify(ctx, target, shown)
	shown.end()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "archive: %s, %s: all intact\n", plural(shown.last.Files, "segment"),
		sizeText(shown.last.Done))
	return printArchive(out, log)
}

// nodeClient sends the requests of a backup or restore to a node. It is safe for concurrent use.
type nodeClient struct {
	mu          sync.Mutex
	adminClient *adminClient
	met         bool
}

// Order implements backup.NodeClient.
func (o *nodeClient) Order(ctx context.Context, what string, body []byte) ([]byte, error) {
	o.mu.Lock()
	if !o.met { // the first request determines whether to use the admin socket
		defer o.mu.Unlock()
		answer, err := o.adminClient.requestWith(ctx, http.MethodPost, "/"+what, body)
		o.met = err == nil
		return answer, err
	}
	d := *o.adminClient
	o.mu.Unlock()
	return d.requestWith(ctx, http.MethodPost, "/"+what, body)
}

// interrupted returns a context that is canceled when the user interrupts the program.
func interrupted() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}

// progressLine shows progress on a terminal.
type progressLine struct {
	out   *os.File
	quiet bool
	word  string
	last  backup.Progress
	shown time.Time
}

const progressEvery = 200 * time.Millisecond

// Show implements backup.Display.
func (l *progressLine) Show(p backup.Progress) {
	l.last = p
	if l.quiet || time.Since(l.shown) < progressEvery || !isTerminal(l.out) {
		return
	}
	l.shown = time.Now()
	of := ""
	if p.All > 0 {
		of = " of " + sizeText(p.All)
	}
	fmt.Fprintf(l.out, "\r\x1b[K%s %s%s in %d files, %d moved (%s)", l.word, sizeText(p.Done), of, p.Files, p.Sent,
		sizeText(p.SentBytes))
}

func (l *progressLine) end() {
	if !l.shown.IsZero() {
		fmt.Fprint(l.out, "\r\x1b[K")
	}
}

// sizeText formats a size in decimal units.
func sizeText(n int64) string {
	switch {
	case n < 1e3:
		return fmt.Sprintf("%d B", n)
	case n < 1e6:
		return fmt.Sprintf("%.1f KB", float64(n)/1e3)
	case n < 1e9:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.2f GB", float64(n)/1e9)
}
