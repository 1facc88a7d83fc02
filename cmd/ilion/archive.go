// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/tool/backup"
)

type backupArchiveCommand struct {
	adminClient
	transferOptions
	storageURL
	To        string        `name:"to" required:"" env:"ILION_BACKUP" placeholder:"PLACE" help:"Directory or s3://BUCKET/PREFIX"`
	Also      []string      `name:"also" placeholder:"HOST:PORT" help:"Further nodes, used if the first does not respond"`
	Every     time.Duration `name:"every" default:"1s" placeholder:"TIME" help:"Interval between restore points (default ${default})"`
	BaseEvery time.Duration `name:"base-every" default:"24h" placeholder:"TIME" help:"Interval between full backups (default ${default})"`
	Keep      time.Duration `name:"keep" default:"168h" placeholder:"TIME" help:"Retention period; 0 is unlimited (default ${default})"`
}

func (c *backupArchiveCommand) check() error {
	switch {
	case c.Every < 100*time.Millisecond || c.Every > 20*time.Second:
		return &usageError{"invalid --every: expected a duration from 100ms to 20s"}
	case c.BaseEvery < time.Minute:
		return &usageError{"invalid --base-every: expected a duration of at least 1m"}
	case c.Keep != 0 && c.Keep < time.Minute:
		return &usageError{"invalid --keep: expected 0 or a duration of at least 1m"}
	}
	return c.transferOptions.check()
}

// Run archives changes until it is interrupted.
func (c *backupArchiveCommand) Run(out io.Writer) error {
	if err := c.check(); err != nil {
		return err
	}
	ctx, stop := interrupted()
	defer stop()
	target, err := c.storageURL.open(ctx, c.To, true)
	if err != nil {
		return err
	}
	nodes := &failoverClient{nodes: []*nodeClient{{adminClient: &c.adminClient}}}
	for _, address := range c.Also {
		other := c.adminClient
		other.HTTP, other.Data = address, ""
		nodes.nodes = append(nodes.nodes, &nodeClient{adminClient: &other})
	}
	shown := &archiveProgress{out: out, terminal: isTerminal(os.Stderr) && !c.Quiet}
	f := &backup.Follower{Node: nodes, Target: target, Every: c.Every, BaseEvery: c.BaseEvery, Keep: c.Keep,
		Parallel: c.Parallel, Rate: int64(c.RateMB) * 1e6, Clock: sched.SystemClock, Display: shown}
	err = f.Run(ctx)
	shown.end()
	return err
}

// failoverClient sends each request to the node that has responded to the previous request. If this node does not
// respond, failoverClient uses another node.
type failoverClient struct {
	nodes []*nodeClient
	mu    sync.Mutex
	at    int
}

// Order implements backup.NodeClient.
func (a *failoverClient) Order(ctx context.Context, what string, body []byte) ([]byte, error) {
	a.mu.Lock()
	at := a.at
	a.mu.Unlock()
	answer, err := a.nodes[at].Order(ctx, what, body)
	if err != nil && len(a.nodes) > 1 && errors.As(err, new(*unreachableError)) {
		a.mu.Lock()
		if a.at == at {
			a.at = (at + 1) % len(a.nodes)
		}
		a.mu.Unlock()
	}
	return answer, err
}

// archiveProgress shows the progress of an archive. On a terminal, the progress is updated continuously. Otherwise, it
// is printed once per minute.
type archiveProgress struct {
	out      io.Writer
	terminal bool
	mu       sync.Mutex
	shown    time.Time
	open     bool
}

const progressLogInterval = time.Minute

// Say prints a message with a timestamp.
func (l *archiveProgress) Say(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
	fmt.Fprintf(l.out, "%s %s\n", time.Now().UTC().Format(time.RFC3339), text)
}

// Show implements backup.ArchiveDisplay.
func (l *archiveProgress) Show(p backup.Followed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.terminal && time.Since(l.shown) < progressLogInterval || p.Stored.IsZero() {
		return
	}
	l.clear()
	text := fmt.Sprintf("archived up to %s, lag %s; %s stored; writes paused for %s", p.Stored.Format(backup.TimeFormat),
		time.Since(p.Stored).Round(time.Second), sizeText(p.Bytes), p.Still.Round(100*time.Microsecond))
	if p.Bases > 0 {
		text += "; full backup in progress"
	}
	l.shown = time.Now()
	if l.terminal {
		fmt.Fprintf(os.Stderr, "\r\x1b[K%s", text)
		l.open = true
		return
	}
	fmt.Fprintf(l.out, "%s %s\n", time.Now().UTC().Format(time.RFC3339), text)
}

func (l *archiveProgress) clear() {
	if l.open {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
		l.open = false
	}
}

func (l *archiveProgress) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
}

// printArchive prints the restorable periods of an archive.
func printArchive(out io.Writer, log *backup.Log) error {
	for i, missing := range log.Missing {
		if missing && i > 0 {
			fmt.Fprintf(out, "archive: changes before %s are missing\n",
				log.Chains[i].First().Format(backup.TimeFormat))
		}
	}
	for _, r := range log.Ranges() {
		_, err := fmt.Fprintf(out, "archive: restore points from %s to %s (%s)\n",
			r.From.Format(backup.TimeFormat), r.To.Format(backup.TimeFormat), r.To.Sub(r.From).Round(time.Second))
		if err != nil {
			return err
		}
	}
	if len(log.Chains) > 0 && len(log.Ranges()) == 0 {
		_, err := fmt.Fprintln(out, "archive: no restore points yet: no full backup is complete")
		return err
	}
	return nil
}

type backupPruneCommand struct {
	storageURL
	From      string        `arg:"" name:"from" placeholder:"PLACE" help:"Directory or s3://BUCKET/PREFIX"`
	KeepLast  int           `name:"keep-last" placeholder:"N" help:"Number of most recent backups to keep; archive backups are not counted"`
	OlderThan time.Duration `name:"older-than" placeholder:"TIME" help:"Minimum age of the backups to delete, such as 720h"`
	Keep      time.Duration `name:"keep" placeholder:"TIME" help:"Retention period of restore points in the archive"`
	Dry       bool          `name:"dry-run" help:"List the files to delete without deleting them"`
}

// Run deletes old backups and archive data.
func (c *backupPruneCommand) Run(out io.Writer) error {
	ctx, stop := interrupted()
	defer stop()
	p := &backup.Pruner{Clock: sched.SystemClock, KeepLast: c.KeepLast, OlderThan: c.OlderThan, Keep: c.Keep,
		Dry: c.Dry}
	if err := p.Check(); err != nil {
		return &usageError{err.Error()}
	}
	var err error
	if p.Target, err = c.storageURL.open(ctx, c.From, false); err != nil {
		return err
	}
	if c.Dry {
		p.OnRemove = func(name string) { fmt.Fprintln(out, name) }
	}
	if err := p.Prune(ctx); err != nil {
		return err
	}
	word := "deleted"
	if c.Dry {
		word = "would be deleted"
	}
	fmt.Fprintf(out, "%s and %s %s\n", plural(p.Backups, "backup"), plural(p.Removed-p.Backups, "other file"), word)
	if p.Busy {
		fmt.Fprintln(out, "Row files were kept: a backup is in progress or was interrupted. The next complete backup frees them.")
	}
	return nil
}
