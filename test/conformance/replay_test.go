// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"
)

// recording is one recorded test, which is a line of a file.
type recording struct {
	File    string
	Line    int
	Test    string   `json:"test"`
	Needs   []string `json:"needs"`
	Cleanup []string `json:"cleanup"`
	// Sessions holds the credentials of sessions that do not use the superuser.
	Sessions map[string]credentials `json:"sessions"`
	Steps    []step                 `json:"steps"`
	// Whole enables the comparison of every step, including unsupported steps.
	Whole bool `json:"-"`
}

type credentials struct{ User, Password string }

type step struct {
	Session  int                `json:"session"`
	Op       string             `json:"op"`
	CQL      string             `json:"cql"`
	Prepared int                `json:"prepared"`
	User     string             `json:"user"`     // of login
	Password string             `json:"password"` // of login
	Keyspace *string            `json:"keyspace"`
	Values   []*string          `json:"values"`
	Named    map[string]*string `json:"named"`
	Batch    *struct {
		Type       string `json:"type"`
		Statements []struct {
			CQL      string    `json:"cql"`
			Prepared *int      `json:"prepared"`
			Values   []*string `json:"values"`
		} `json:"statements"`
	} `json:"batch"`
	CL        string   `json:"cl"`
	SerialCL  string   `json:"serial_cl"`
	PageSize  *int     `json:"page_size"`
	Paging    string   `json:"paging"`
	PageFrom  *int     `json:"page_from"`
	Timestamp *int64   `json:"timestamp"`
	SleepMS   int      `json:"sleep_ms"`
	Expect    answer   `json:"expect"`
	Compare   string   `json:"compare"`
	Volatile  []string `json:"volatile"`
}

// load reads a recorded file. It first expands long runs, such as {"parts": ["ab", ["61", 3]]}, to strings.
func load(path, name string) ([]recording, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 64<<20)
	var out []recording
	for line := 1; s.Scan(); line++ {
		text := s.Bytes()
		if bytes.Contains(text, []byte(`"parts"`)) {
			var v any
			d := json.NewDecoder(bytes.NewReader(text))
			d.UseNumber()
			if err := d.Decode(&v); err != nil {
				return nil, fmt.Errorf("%s line %d: %w", name, line, err)
			}
			if text, err = json.Marshal(expand(v)); err != nil {
				return nil, err
			}
		}
		r := recording{File: name, Line: line}
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("%s line %d: %w", name, line, err)
		}
		out = append(out, r)
	}
	return out, s.Err()
}

func expand(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if parts, ok := v["parts"].([]any); ok && len(v) == 1 {
			var b strings.Builder
			for _, p := range parts {
				switch p := p.(type) {
				case string:
					b.WriteString(p)
				case []any:
					n, _ := p[1].(json.Number).Int64()
					b.WriteString(strings.Repeat(p[0].(string), int(n)))
				}
			}
			return b.String()
		}
		for k := range v {
			v[k] = expand(v[k])
		}
	case []any:
		for i := range v {
			v[i] = expand(v[i])
		}
	}
	return v
}

// replay holds the state of a running test.
//
// With more than one address, every step of a session goes to the next node, as with a round-robin driver. The session
// has a connection to each node. Each connection switches to the keyspace of the session before its next step.
// Statements are prepared on all connections.
type replay struct {
	addrs []string
	rec   *recording
	conns map[place]*conn
	uses  map[int]string // the keyspace of each session
	// logins holds the users of the sessions that differ from the recording.
	logins map[int]credentials
	turn   int
	ids    map[int][]byte
	cols   map[int][][2]string
	states map[int][]byte
}

// place identifies a session's connection to a node.
type place struct{ session, node int }

func newReplay(addrs []string, rec *recording) *replay {
	return &replay{addrs: addrs, rec: rec, conns: map[place]*conn{}, uses: map[int]string{}, ids: map[int][]byte{},
		logins: map[int]credentials{}, cols: map[int][][2]string{}, states: map[int][]byte{}}
}

func (r *replay) conn(at place) (*conn, error) {
	if c := r.conns[at]; c != nil {
		return c, nil
	}
	c, err := dial(r.addrs[at.node])
	if err == nil && c.refused != nil {
		who, ok := r.logins[at.session]
		if !ok {
			who, ok = r.rec.Sessions[fmt.Sprint(at.session)]
		}
		if !ok {
			who = credentials{superuser, superuser}
		}
		err = c.login(who.User, who.Password)
	}
	if err == nil {
		r.conns[at] = c
	}
	return c, err
}

// login opens a new connection of a session. Connections to the other nodes are opened later. If the login is
// rejected, the session keeps the old connections.
func (r *replay) login(st *step) (answer, error) {
	c, err := dial(r.addrs[0])
	if err != nil {
		return answer{}, err
	}
	got, err := c.authenticate(st.User, st.Password)
	if err != nil || got.Kind != "ready" {
		c.c.Close()
		return got, err
	}
	for at, old := range r.conns {
		if at.session == st.Session {
			old.c.Close()
			delete(r.conns, at)
		}
	}
	r.conns[place{st.Session, 0}] = c
	r.logins[st.Session] = credentials{st.User, st.Password}
	delete(r.uses, st.Session)
	return got, nil
}

func (r *replay) close() {
	for _, c := range r.conns {
		c.c.Close()
	}
}

// next returns the connection for the next step of a session, in the session's keyspace.
func (r *replay) next(session int) (place, *conn, error) {
	at := place{session, r.turn % len(r.addrs)}
	r.turn++
	c, err := r.conn(at)
	if err != nil || r.use(c, r.uses[session]) {
		return at, c, err
	}
	// The keyspace was dropped, so only the connection that already uses the keyspace can continue.
	for at.node = range r.addrs {
		if c := r.conns[at]; c != nil && c.keyspace == r.uses[session] {
			return at, c, nil
		}
	}
	return at, c, nil
}

// use changes the keyspace of a connection and reports whether the keyspace exists.
func (r *replay) use(c *conn, keyspace string) bool {
	if keyspace == c.keyspace {
		return true
	}
	a, err := c.query(`USE "` + strings.ReplaceAll(keyspace, `"`, `""`) + `"`)
	return err == nil && a.Kind == "set_keyspace"
}

// everywhere prepares a statement on the other nodes. All nodes must return the same ID, because drivers require it.
func (r *replay) everywhere(at place, st *step, id []byte) error {
	for n := range r.addrs {
		if n == at.node {
			continue
		}
		c, err := r.conn(place{at.session, n})
		if err != nil {
			return err
		}
		r.use(c, r.uses[at.session])
		a, err := c.call(opPrepare, appendLong(nil, st.CQL))
		if err != nil {
			return err
		}
		if a.Kind != "prepared" || !bytes.Equal(a.id, id) {
			return fmt.Errorf("prepared with ID %x on node %d, on node %d: %s %x", id, at.node, n, brief(a), a.id)
		}
	}
	return nil
}

// nothing returns the response for a step that cannot be sent.
func nothing(format string, args ...any) answer {
	return answer{Kind: "nothing", Message: fmt.Sprintf(format, args...)}
}

// run sends step i and returns the response.
func (r *replay) run(i int) (answer, error) {
	st := &r.rec.Steps[i]
	if st.SleepMS > 0 && !slices.Contains(r.rec.Needs, "auth") { // skip waits for permission caches
		time.Sleep(time.Duration(st.SleepMS) * time.Millisecond) // a recorded wait, because data expires in real time
	}
	if st.Op == "login" {
		return r.login(st)
	}
	if st.Keyspace != nil {
		r.uses[st.Session] = *st.Keyspace
	}
	at, c, err := r.next(st.Session)
	if err != nil {
		return answer{}, err
	}
	var state []byte
	if st.Paging == "continue" {
		from := i - 1
		if st.PageFrom != nil {
			from = *st.PageFrom
		}
		if state = r.states[from]; state == nil {
			return nothing("step %d returned no paging state", from), nil
		}
	}
	opcode, body, err := r.request(st, state)
	if err != nil {
		return nothing("%v", err), nil
	}
	got, err := c.call(opcode, body)
	if err != nil {
		c.c.Close()
		delete(r.conns, at)
		return got, err
	}
	switch got.Kind {
	case "set_keyspace":
		c.keyspace, r.uses[st.Session] = got.Keyspace, got.Keyspace
	case "prepared":
		r.ids[i], r.cols[i] = got.id, got.Columns
		return got, r.everywhere(at, st, got.id)
	case "rows":
		if got.Columns == nil && st.Op == "execute" {
			got.Columns = r.cols[st.Prepared]
		}
		if got.pagingState != nil {
			r.states[i] = got.pagingState
		}
	}
	return got, nil
}

func (r *replay) request(st *step, state []byte) (opcode byte, body []byte, err error) {
	switch st.Op {
	case "query":
		body, err = appendParams(appendLong(nil, st.CQL), st, state)
		return opQuery, body, err
	case "prepare":
		return opPrepare, appendLong(nil, st.CQL), nil
	case "execute":
		id := r.ids[st.Prepared]
		if id == nil {
			return 0, nil, fmt.Errorf("step %d was not prepared", st.Prepared)
		}
		body, err = appendParams(appendString(nil, string(id)), st, state)
		return opExecute, body, err
	case "batch":
		body, err = r.batch(st)
		return opBatch, body, err
	}
	return 0, nil, fmt.Errorf("unknown op %q", st.Op)
}

func (r *replay) batch(st *step) ([]byte, error) {
	kind := map[string]byte{"logged": 0, "unlogged": 1, "counter": 2}[st.Batch.Type]
	b := binary.BigEndian.AppendUint16([]byte{kind}, uint16(len(st.Batch.Statements)))
	var err error
	for _, s := range st.Batch.Statements {
		if s.Prepared != nil {
			id := r.ids[*s.Prepared]
			if id == nil {
				return nil, fmt.Errorf("step %d was not prepared", *s.Prepared)
			}
			b = appendString(append(b, 1), string(id))
		} else {
			b = appendLong(append(b, 0), s.CQL)
		}
		b = binary.BigEndian.AppendUint16(b, uint16(len(s.Values)))
		for _, v := range s.Values {
			if b, err = appendValue(b, v); err != nil {
				return nil, err
			}
		}
	}
	only := step{CL: st.CL, SerialCL: st.SerialCL, Timestamp: st.Timestamp}
	return appendParams(b, &only, nil)
}

func appendParams(b []byte, st *step, state []byte) ([]byte, error) {
	b = binary.BigEndian.AppendUint16(b, level(st.CL))
	at := len(b)
	b = append(b, 0)
	var err error
	switch {
	case st.Named != nil:
		b[at] |= 0x41
		b = binary.BigEndian.AppendUint16(b, uint16(len(st.Named)))
		names := make([]string, 0, len(st.Named))
		for n := range st.Named {
			names = append(names, n)
		}
		sort.Strings(names)
		for _, n := range names {
			if b, err = appendValue(appendString(b, n), st.Named[n]); err != nil {
				return nil, err
			}
		}
	case st.Values != nil:
		b[at] |= 1
		b = binary.BigEndian.AppendUint16(b, uint16(len(st.Values)))
		for _, v := range st.Values {
			if b, err = appendValue(b, v); err != nil {
				return nil, err
			}
		}
	}
	if st.PageSize != nil {
		b[at] |= 4
		b = binary.BigEndian.AppendUint32(b, uint32(int32(*st.PageSize)))
	}
	if state != nil {
		b[at] |= 8
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(state))), state...)
	}
	if st.SerialCL != "" {
		b[at] |= 0x10
		b = binary.BigEndian.AppendUint16(b, level(st.SerialCL))
	}
	if st.Timestamp != nil {
		b[at] |= 0x20
		b = binary.BigEndian.AppendUint64(b, uint64(*st.Timestamp))
	}
	return b, nil
}

// recordings lists the files of the scenarios and of the recordings next to the repository.
func recordings() []string {
	files, _ := filepath.Glob("testdata/*.jsonl")
	beside, _ := filepath.Glob(filepath.Join(besideRepository(), "*.jsonl"))
	for _, f := range beside {
		if !slices.ContainsFunc(files, func(have string) bool { return filepath.Base(have) == filepath.Base(f) }) {
			files = append(files, f)
		}
	}
	return files
}

// besideRepository returns the directory of the recordings of public test suites.
func besideRepository() string {
	if dir := os.Getenv("ILION_CONFORMANCE"); dir != "" {
		return dir
	}
	return "../../../shared/conformance"
}
