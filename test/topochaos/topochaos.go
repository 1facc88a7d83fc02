// SPDX-License-Identifier: Apache-2.0

// Package topochaos changes the physical partitions of tables during a test. It splits, merges, and moves random
// partitions with the requests that operators use. A seed determines the changes.
package topochaos

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ilion-db/ilion/internal/server/admin"
)

var digits = regexp.MustCompile(`-?[0-9]+`)

// partitionsMax is the maximum number of partitions of a table. The limit makes merges as frequent as splits.
const partitionsMax = 12

// Changer changes partitions of user tables. It is safe for concurrent use.
type Changer struct {
	// Siblings restricts merges to pairs of partitions in which one partition was split off from the other partition.
	// Set it before the first call of Change.
	Siblings bool
	// User and Password are the credentials for requests if logins are required. Set them before the first call of
	// Change.
	User, Password string

	t    testing.TB
	webs []string // HTTP addresses of the nodes
	http *http.Client

	mu      sync.Mutex
	rng     *rand.Rand
	ordered map[string]int
	refused map[string]int // number of rejected requests by reason
}

// New returns a Changer for nodes at HTTP addresses, which accept administrative requests from the same machine. New
// logs its changes at the end of the test.
func New(t testing.TB, seed uint64, webs ...string) *Changer {
	s := &Changer{t: t, webs: webs, http: &http.Client{Timeout: time.Minute}, rng: rand.New(rand.NewPCG(seed, 8)),
		ordered: map[string]int{}, refused: map[string]int{}}
	t.Cleanup(func() {
		s.http.CloseIdleConnections()
		t.Logf("seed %d: completed or ordered %v", seed, s.ordered)
		for _, why := range slices.Sorted(maps.Keys(s.refused)) {
			t.Logf("rejected %d times: %s", s.refused[why], why)
		}
	})
	return s
}

// Change changes one partition of a table whose name begins with a prefix, such as a keyspace with its dot. Change
// counts rejected requests. For example, a request is rejected if the table has been dropped or too many changes are
// in progress.
func (s *Changer) Change(prefix string) {
	s.t.Helper()
	web := s.webs[s.number(len(s.webs))]
	status, err := s.status(web)
	if err != nil {
		s.t.Errorf("status of %s: %v", web, err)
		return
	}
	var tables []admin.TableStatus
	for _, t := range status.Tables {
		if !strings.HasPrefix(t.Name, "system") && strings.HasPrefix(t.Name, prefix) && len(t.Partitions) > 0 {
			tables = append(tables, t)
		}
	}
	if len(tables) == 0 {
		return
	}
	t := &tables[s.number(len(tables))]
	what, order := s.order(status, t)
	order = fmt.Sprintf("/partition/%s?table=%s&%s", what, url.QueryEscape(t.Name), order)
	said, err := s.give(web, order)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.t.Errorf("%s: %v", order, err)
	case said != "":
		s.refused[what+": "+digits.ReplaceAllString(strings.TrimSpace(said), "N")]++
	default:
		s.ordered[what]++
	}
}

// order draws a change of a table and requests the change. About half of the requests wait until the change has
// completed. The other changes are still in progress when the test sends its next statement.
func (s *Changer) order(status *admin.Status, t *admin.TableStatus) (what, order string) {
	i := s.number(len(t.Partitions))
	p := &t.Partitions[i]
	wait := fmt.Sprintf("&now=true&wait=%t", s.number(2) == 0)
	switch n := s.number(10); {
	case n < 3 && len(status.Nodes) > len(p.Replicas):
		from := p.Replicas[s.number(len(p.Replicas))].Node
		to := status.Nodes[s.number(len(status.Nodes))].ID
		return "move", fmt.Sprintf("partition=%d&from=%s&to=%s&hold=2s", p.ID, from, to)
	case s.number(partitionsMax) < len(t.Partitions)-1:
		if i = s.number(len(t.Partitions) - 1); s.Siblings {
			if i = sibling(t.Partitions, i); i < 0 {
				break
			}
		}
		return "merge", fmt.Sprintf("partition=%d&with=%d", t.Partitions[i].ID, t.Partitions[i+1].ID) + wait
	case n%2 == 0: // split in the middle of the rows, which is rejected for fewer than two rows
		return "split", fmt.Sprintf("partition=%d", p.ID) + wait
	}
	return "split", fmt.Sprintf("partition=%d&at=%d", p.ID, s.within(p.Span)) + wait
}

// sibling returns the first partition, starting at i, whose right neighbor was split off from it. sibling returns -1
// if no such partition exists.
func sibling(ps []admin.PartitionStatus, i int) int {
	for j := range len(ps) - 1 {
		if k := (i + j) % (len(ps) - 1); ps[k+1].Parent == ps[k].ID {
			return k
		}
	}
	return -1
}

// within draws a token from a range. The range has the format that the status uses.
func (s *Changer) within(span string) int64 {
	begin, end, _ := strings.Cut(strings.Trim(span, "[)"), ", ")
	first, last := int64(math.MinInt64), int64(math.MaxInt64)
	if _, err := fmt.Sscan(begin, &first); err != nil {
		s.t.Errorf("span %s: %v", span, err)
	}
	if end != "end" {
		if _, err := fmt.Sscan(end, &last); err != nil {
			s.t.Errorf("span %s: %v", span, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return first + int64(s.rng.Uint64N(max(1, uint64(last)-uint64(first))))
}

func (s *Changer) number(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

func (s *Changer) status(web string) (*admin.Status, error) {
	r, err := s.http.Get("http://" + web + "/status")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	status := new(admin.Status)
	return status, json.NewDecoder(r.Body).Decode(status)
}

// give sends a request and returns the text of a rejection.
func (s *Changer) give(web, order string) (refused string, err error) {
	ask, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://"+web+order, nil)
	if err != nil {
		return "", err
	}
	if s.User != "" {
		ask.SetBasicAuth(s.User, s.Password)
	}
	r, err := s.http.Do(ask)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if r.StatusCode == http.StatusOK {
		return "", err
	}
	return string(body), err
}
