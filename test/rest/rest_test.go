// SPDX-License-Identifier: Apache-2.0

//go:build integration

// Package rest runs sessions of Azure Cosmos DB's unmodified SDKs against a node.
package rest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/ilion-db/ilion/internal/node"
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/test/eventually"
	"github.com/ilion-db/ilion/test/restclient"
	"github.com/ilion-db/ilion/test/testnode"
)

// These are the versions of the SDKs for which the sessions were written.
const (
	javaScriptSDK = "@azure/cosmos@4.9.3"
	pythonSDK     = "azure-cosmos==4.17.1"
)

// key is the primary key of the nodes in these tests.
var key = restclient.Key

// start starts a node in memory and returns its endpoint.
func start(t *testing.T) string { return endpoint(startNode(t, 1)) }

// startNode starts a node in memory. The node serves CQL and REST with key until the test ends. Each container has the
// given number of physical partitions.
func startNode(t *testing.T, partitions int) *node.Node {
	t.Helper()
	return testnode.One(t, options.Options{REST: options.REST{Address: "127.0.0.1:0", PrimaryKey: key},
		InitialPartitions: partitions})
}

func endpoint(n *node.Node) string { return "http://" + n.RESTAddr().String() }

// install runs a command that installs an SDK. install skips the test if the command or the registry is not available.
func install(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed", name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// run runs a session, which must succeed, and returns its output.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, append(os.Environ(), env...), time.Second
	var out, complaints strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s\n%s", filepath.Base(name), err, &out, &complaints)
	}
	t.Logf("%s", &out)
	return out.String()
}

// here returns the folder of the sessions.
func here(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestGo checks that a session of azcosmos has the expected results.
func TestGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	module(t, dir, "main.go")
	install(t, dir, "go", "mod", "download")
	program := filepath.Join(dir, "azcosmos")
	run(t, dir, nil, "go", "build", "-o", program, ".")
	run(t, dir, nil, program, start(t), key)
}

// module copies the files that name the dependencies of the azcosmos module, and other given files. These files are
// stored as text files because the database must not depend on the module.
func module(t *testing.T, dir string, others ...string) {
	t.Helper()
	for _, name := range append(others, "go.mod", "go.sum") {
		text, err := os.ReadFile(filepath.Join("testdata", "azcosmos", name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), string(text))
	}
}

// TestHybridSearch checks the results of full-text and hybrid searches with @azure/cosmos and azure-cosmos. The
// containers have several physical partitions, over which the SDKs execute the query plan.
func TestHybridSearch(t *testing.T) {
	t.Parallel()
	at := endpoint(startNode(t, 3))
	t.Run("JavaScript", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		install(t, dir, "npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", dir, javaScriptSDK)
		run(t, dir, []string{"NODE_PATH=" + filepath.Join(dir, "node_modules")}, "node",
			filepath.Join(here(t), "hybrid.js"), at, key)
	})
	t.Run("Python", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		install(t, dir, "python3", "-m", "venv", dir)
		install(t, dir, filepath.Join(dir, "bin", "pip"), "install", "-q", pythonSDK)
		run(t, dir, nil, filepath.Join(dir, "bin", "python"), filepath.Join(here(t), "hybrid.py"), at, key)
	})
}

// TestJavaScript checks that a session of @azure/cosmos has the expected results.
func TestJavaScript(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	install(t, dir, "npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", dir, javaScriptSDK)
	run(t, dir, []string{"NODE_PATH=" + filepath.Join(dir, "node_modules")}, "node",
		filepath.Join(here(t), "session.js"), start(t), key)
}

// TestPython checks that a session of azure-cosmos has the expected results.
func TestPython(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	install(t, dir, "python3", "-m", "venv", dir)
	install(t, dir, filepath.Join(dir, "bin", "pip"), "install", "-q", pythonSDK)
	run(t, dir, nil, filepath.Join(dir, "bin", "python"), filepath.Join(here(t), "session.py"), start(t), key)
}

// TestWalkThrough checks that the programs in docs/containers-rest.md print the output that the page shows. The
// programs run one after another on one node.
func TestWalkThrough(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/containers-rest.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(language string, i int) string {
		all := regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllSubmatch(text, -1)
		if len(all) <= i {
			t.Fatalf("the page has no block %d of %s", i, language)
		}
		return string(all[i][1])
	}
	dir := t.TempDir()
	install(t, dir, "npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", dir, javaScriptSDK)
	module(t, dir)
	install(t, dir, "go", "mod", "download")
	write(t, filepath.Join(dir, "foods.js"), block("js", 0))
	write(t, filepath.Join(dir, "main.go"), block("go", 0))
	n := startNode(t, 1)
	env := []string{"ENDPOINT=" + endpoint(n), "KEY=" + key, "NODE_PATH=" + filepath.Join(dir, "node_modules")}
	js := regexp.MustCompile(`(?m)^wrote .*\n`).ReplaceAllString(run(t, dir, env, "node", "foods.js"), "")
	if want := block("text", 0); js != want {
		t.Errorf("JavaScript prints\n%s\nnot\n%s", js, want)
	}
	if got, want := run(t, dir, env, "go", "run", "."), block("text", 1); got != want {
		t.Errorf("Go prints\n%s\nnot\n%s", got, want)
	}
	write(t, filepath.Join(dir, "move.js"), block("js", 1))
	if got, want := run(t, dir, env, "node", "move.js"), block("text", 2); got != want {
		t.Errorf("the procedure prints\n%s\nnot\n%s", got, want)
	}
	var got string
	if _, missing := eventually.Try(eventually.Limit, func() string {
		if got = largest(t, n, block("cql", 0)); got != block("text", 3) {
			return "no" // sizes are updated in the background
		}
		return ""
	}); missing != "" {
		t.Errorf("the largest logical partitions are\n%s\nwant\n%s", got, block("text", 3))
	}
}

// largest returns the result of a SELECT of logical partitions, including their positions and names. Each row is one
// line.
func largest(t *testing.T, n *node.Node, statement string) string {
	t.Helper()
	cluster := gocql.NewCluster(n.CQLAddr().String())
	s, err := cluster.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var text strings.Builder
	var place int
	var name string
	rows := s.Query(statement).Iter()
	for rows.Scan(&place, &name) {
		fmt.Fprintln(&text, place, name)
	}
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
