// SPDX-License-Identifier: Apache-2.0

//go:build integration && linux

package cluster

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ilion-db/ilion/internal/tool/bench"
	"github.com/ilion-db/ilion/test/process"
)

var (
	growPython = flag.String("cluster.python", "", "Python interpreter with cassandra-driver for app.py in TestGrowth")
	benchDepth = flag.Int("cluster.bench", 4, "requests in flight per connection of ilion bench in TestGrowth")
)

// benchTime is the duration of a run of ilion bench after its start. benchMax is the timeout of a run.
const (
	benchTime = "20s"
	benchMax  = 3 * time.Minute
)

// pythonApp runs app.py until its standard input ends. app.py does the same as app with the Python driver.
type pythonApp struct {
	l     *load
	asked atomic.Int64
	input io.Closer
	ended chan struct{}
	once  sync.Once
}

// startPython starts app.py if Python is available.
func startPython(l *load) *pythonApp {
	l.t.Helper()
	p := &pythonApp{l: l}
	if *growPython == "" {
		return p
	}
	var hosts []string
	for _, m := range l.f.nodes {
		hosts = append(hosts, m.ip)
	}
	args := []string{"app.py", strings.Join(hosts, ","), strconv.Itoa(cqlPort), strconv.FormatInt(pythonKeys, 10)}
	if *growKill {
		args = append(args, "--tolerate")
	}
	cmd := exec.Command(*growPython, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	input, err := cmd.StdinPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		l.t.Fatal(err)
	}
	p.input, p.ended = input, make(chan struct{})
	go func() {
		defer close(p.ended)
		var now struct{ Requests, Errors int64 }
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if err := json.Unmarshal(lines.Bytes(), &now); err == nil {
				p.asked.Store(now.Requests)
			}
		}
		l.tolerated.Add(now.Errors)
		if err := cmd.Wait(); err != nil {
			l.fail("app.py: %v: %s", err, said.Bytes())
		}
	}()
	return p
}

// pythonKeys is the first key of app.py, above the keys of app.
const pythonKeys = appKeys << 1

// end lets app.py check its data, and waits for the result.
func (p *pythonApp) end() {
	if p.input == nil {
		return
	}
	p.once.Do(func() { p.input.Close() })
	<-p.ended
}

// benchRuns runs ilion bench repeatedly. Each run empties its table and fills it again.
type benchRuns struct {
	l     *load
	asked atomic.Int64
	stop  atomic.Bool
	wg    sync.WaitGroup
}

// startBench runs ilion bench repeatedly on the first node, which is not killed.
func startBench(l *load) *benchRuns {
	b := &benchRuns{l: l}
	if *benchDepth > 0 {
		b.wg.Go(func() {
			for !b.stop.Load() && b.run() {
			}
		})
	}
	return b
}

// end waits for the last run to finish.
func (b *benchRuns) end() {
	b.stop.Store(true)
	b.wg.Wait()
}

// run runs the tool once and reports whether it succeeded.
func (b *benchRuns) run() bool {
	cmd := process.Command(b.l.t, "bench", "mixed", "--verify", "--json", "--addr", b.l.f.nodes[0].cql(),
		"--consistency", "QUORUM", "--connections", "4", "--inflight", fmt.Sprint(*benchDepth), "--keys", "4000",
		"--row-size", "400", "--warmup", "0s", "--duration", benchTime)
	var said bytes.Buffer
	cmd.Stderr = &said
	late := time.AfterFunc(benchMax, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) }) // prints the stacks
	out, err := cmd.Output()
	late.Stop()
	var rep bench.Report
	if jsonErr := json.Unmarshal(out, &rep); jsonErr != nil && err == nil {
		err = jsonErr
	}
	b.asked.Add(rep.Requests)
	if rep.Errors > 0 {
		b.l.unanswered("ilion bench: %d errors, the first: %s", rep.Errors, rep.FirstError)
	}
	if rep.Wrong > 0 {
		b.l.fail("ilion bench: %d wrong results, the first: %s", rep.Wrong, rep.FirstWrong)
	} else if err != nil {
		b.l.unanswered("ilion bench: %v: %s", err, said.Bytes())
	}
	return err == nil || b.l.uncertain.Load()
}
