// SPDX-License-Identifier: Apache-2.0

//go:build integration

package attack

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/ilion-db/ilion/internal/replica/transport"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/test/freeport"
	"github.com/ilion-db/ilion/test/process"
)

// TestCheckpoints checks A2. Concurrent requests for checkpoints must not stop the process, regardless of their
// number. Each checkpoint has a separate directory and contains all writes that were acknowledged before the request.
func TestCheckpoints(t *testing.T) {
	v := startVictim(t)
	v.observe()
	v.until("there are rows", func() bool { return v.answered() > 100 })
	owner := process.Owner(v.data)
	var mu sync.Mutex
	made := map[string]bool{}
	var orders sync.WaitGroup
	for range rounds(40) {
		orders.Go(func() {
			code, text, err := post(owner, "http://localhost/checkpoint", "")
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case code != http.StatusOK && !strings.Contains(text, "a checkpoint is already being created"):
				t.Errorf("%d: %s", code, text)
			case code == http.StatusOK && made[text]:
				t.Errorf("checkpoint directory %s was returned twice", text)
			case code == http.StatusOK:
				made[text] = true
			}
		})
	}
	orders.Wait()
	t.Logf("created %d checkpoints", len(made))
	wrote := v.acknowledged()
	_, last, err := post(owner, "http://localhost/checkpoint", "")
	if err != nil {
		t.Fatal(err)
	}
	made[last] = true
	v.endure()
	for dir := range made {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
	v.Kill()
	v.Server, v.wrote = process.Start(t, last), wrote
	v.lostNothing()
}

// post sends a request. If host is not empty, the request has a Host header.
func post(c *http.Client, url, host string) (code int, text string, err error) {
	r, err := http.NewRequest(http.MethodPost, url, nil)
	if err != nil {
		return 0, "", err
	}
	r.Host = host
	answer, err := c.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, strings.TrimSpace(string(body)), err
}

// TestOrdersOfStrangers checks A7. Foreign web pages whose host name resolves to this machine must not be able to
// change the node. Neither must other users of the machine. This applies with and without configured users. If users
// are configured, unauthenticated clients must not be able to read data.
func TestOrdersOfStrangers(t *testing.T) {
	for name, configuration := range map[string][]string{"without users": nil, "with users": {users(t)}} {
		t.Run(name, func(t *testing.T) {
			v := startVictim(t, configuration...)
			v.observe()
			for range rounds(1) {
				for _, order := range []string{"checkpoint", "compact", "upgrade", "node/drain?node=0",
					"node/resume?node=0", "node/decommission?node=0"} {
					for _, host := range []string{"", "evil.example", "localhost", "evil.example:80"} {
						code, text, err := post(http.DefaultClient, "http://"+v.HTTP+"/"+order, host)
						want := http.StatusForbidden
						switch {
						case strings.HasPrefix(host, "evil"):
							want = http.StatusMisdirectedRequest
						case configuration != nil:
							want = http.StatusUnauthorized
						}
						if err != nil || code != want {
							t.Errorf("%s for %q: %d, %s, %v; want %d", order, host, code, text, err, want)
						}
					}
				}
			}
			if r, err := http.Get("http://" + v.HTTP + "/status"); err != nil || configuration != nil &&
				r.StatusCode != http.StatusUnauthorized {
				t.Errorf("unauthenticated status request: %v, %v", r, err)
			} else {
				r.Body.Close()
			}
			if copies, _ := filepath.Glob(v.data + ".checkpoint-*"); len(copies) > 0 {
				t.Errorf("there are %v", copies)
			}
			v.endure()
		})
	}
}

// These are the users of the test. The user late does not log in before an attack begins.
const (
	boss     = "boss"
	late     = "late"
	password = "right"
)

// users returns a configuration with these users. All clients may read metrics.
func users(t *testing.T) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("auth: {users: {%s: '%s', %s: '%s'}, anonymous_endpoints: [metrics]}", boss, hash, late, hash)
}

// TestWrongPasswords checks A5. The node must count concurrent logins with wrong passwords. Such logins must not delay
// a login with the correct password or clients that are connected.
func TestWrongPasswords(t *testing.T) {
	v := startVictim(t, users(t))
	v.observe()
	ctx, cancel := context.WithCancel(t.Context())
	var guessing sync.WaitGroup
	for range 100 {
		guessing.Go(func() {
			for ctx.Err() == nil {
				v.guess(ctx)
			}
		})
	}
	v.until("they guess", func() bool { return v.metric("logins_failed_total")+v.metric("logins_refused_total") >= 10 })
	longest := time.Duration(0)
	for i := range rounds(5) {
		began := time.Now()
		v.client.User = []string{late, boss}[i%2]
		v.dial().Close()
		longest = max(longest, time.Since(began))
	}
	cancel()
	guessing.Wait()
	t.Logf("slowest valid login: %s; failed logins: %.0f, rejected: %.0f", longest, v.metric("logins_failed_total"),
		v.metric("logins_refused_total"))
	if longest > answerMax {
		t.Errorf("a valid login took %s", longest)
	}
	v.endure()
}

// guess tries a wrong password from a separate address. Every outcome except a login is acceptable.
func (v *victim) guess(ctx context.Context) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 24, 0, 9)}, Timeout: time.Second}
	nc, err := d.DialContext(ctx, "tcp", v.CQL)
	if err != nil {
		return
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	out := rawclient.AppendFrame(nil, 0, cqlwire.OpStartup,
		cqlwire.AppendStartup(nil, cqlwire.Startup{"CQL_VERSION": "3.0.0"}))
	token := "\x00" + boss + "\x00wrong"
	out = rawclient.AppendFrame(out, 0, cqlwire.OpAuthResponse,
		append(binary.BigEndian.AppendUint32(nil, uint32(len(token))), token...))
	if _, err := nc.Write(out); err != nil {
		return
	}
	heard, _ := io.ReadAll(io.LimitReader(nc, 4096)) // the server closes the connection after the rejection
	for len(heard) >= 9 {
		if cqlwire.Opcode(heard[4]) == cqlwire.OpAuthSuccess {
			v.t.Error("a wrong password was accepted")
		}
		heard = heard[min(len(heard), 9+int(binary.BigEndian.Uint32(heard[5:]))):]
	}
}

// TestUninvited checks A6. A client without the correct join secret must receive no information about the cluster
// through the internal address. The client must not be able to send commands or disturb the cluster.
func TestUninvited(t *testing.T) {
	internal, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	v := setup{args: []string{"--internal", internal, "--bootstrap"}, configuration: []string{users(t)}}.start(t)
	v.observe()
	cluster, self, err := transport.Identify(t.Context(), transport.DialTCP, nil, process.Secret(), internal)
	if err != nil {
		t.Fatal(err)
	}
	for range rounds(20) {
		for name, secret := range map[string][]byte{"none": nil, "another": bytes.Repeat([]byte("x"), 40)} {
			if got, _, err := transport.Identify(t.Context(), transport.DialTCP, nil, secret, internal); err == nil ||
				got == cluster {
				t.Errorf("secret %s: cluster information was disclosed: %v", name, err)
			}
			thief, err := transport.New(transport.Self{Cluster: cluster, Node: transport.NodeID{1, 2}},
				transport.DialTCP, transport.Options{Secret: secret})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := thief.Discover(t.Context(), internal); !errors.Is(err, transport.ErrSecret) {
				t.Errorf("secret %s: %v", name, err)
			}
			thief.Close()
		}
	}
	if _, again, err := transport.Identify(t.Context(), transport.DialTCP, nil, process.Secret(),
		internal); err != nil ||
		again.Node != self.Node {
		t.Errorf("peer with the right secret: %v", err)
	}
	v.endure()
}

// open returns the files and directories below dir that users other than the owner can access.
func open(t *testing.T, dir string) (out []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := e.Info(); err == nil && info.Mode().Perm()&0o077 != 0 {
			out = append(out, fmt.Sprint(path, " ", info.Mode()))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}
