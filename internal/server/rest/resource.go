// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/ilion-db/ilion/internal/query/container"
	"github.com/ilion-db/ilion/internal/server/httpwire"
)

// database returns the database of the path. It reports 404 only after it has waited for the newest schema.
func (x *exchange) database() (*container.Database, error) {
	d, err := x.knownDatabase()
	if err != nil && container.StatusOf(err) == http.StatusNotFound && x.server.engine.Renewed(x.server.ctx) {
		return x.knownDatabase()
	}
	return d, err
}

// knownDatabase finds the database of the path by its name, or by its resource ID if no database has the name.
func (x *exchange) knownDatabase() (*container.Database, error) {
	name := x.target.database()
	d, err := x.server.engine.Database(name)
	if err != nil && isRID(name) && container.StatusOf(err) == http.StatusNotFound {
		if byID, other := x.server.engine.DatabaseByRID(name); other == nil {
			x.byRID = true
			return byID, nil
		}
	}
	return d, err
}

// container returns the container of the path and sets its headers. owner reports that the request concerns a resource
// in the container, so a missing container is a missing owner.
func (x *exchange) container(owner bool) (*container.Container, error) {
	d, err := x.database()
	if err != nil {
		return nil, missing(err, true)
	}
	c, err := x.knownContainer(d)
	if err != nil && container.StatusOf(err) == http.StatusNotFound && x.server.engine.Renewed(x.server.ctx) {
		if d, err = x.knownDatabase(); err == nil {
			c, err = x.knownContainer(d)
		}
	}
	if err != nil {
		return nil, missing(err, owner)
	}
	if rid := x.header.Get(hIntendedRID); owner && rid != "" && rid != c.RID {
		return nil, &failure{status: http.StatusBadRequest, sub: container.SubOtherRID,
			message: "The container was dropped and re-created. Read it again."}
	}
	if !owner {
		x.setOwner(d, nil)
	} else {
		x.setOwner(d, c)
	}
	return c, nil
}

// setOwner sets the headers that identify the owner of the resources in the response: a database or one of its
// containers. SDKs combine the owner's path and the ID of a resource to the path of the resource.
func (x *exchange) setOwner(d *container.Database, c *container.Container) {
	begin, rid := len(x.values), d.RID
	x.values = append(append(x.values, "dbs/"...), headerText(d.ID)...)
	if c != nil {
		x.values = append(append(x.values, "/colls/"...), headerText(c.ID)...)
		rid = c.RID
	}
	x.end(aAltPath, begin)
	x.set(aPath, rid)
}

// knownContainer finds the container of the path in a database.
func (x *exchange) knownContainer(d *container.Database) (*container.Container, error) {
	name := x.target.container()
	c, err := x.server.engine.Container(d, name)
	if err != nil && x.byRID && container.StatusOf(err) == http.StatusNotFound {
		return x.server.engine.ContainerByRID(name)
	}
	return c, err
}

// missing marks a 404 error as a missing owner if owner is set.
func missing(err error, owner bool) error {
	if owner && container.StatusOf(err) == http.StatusNotFound {
		return &failure{status: http.StatusNotFound, sub: container.SubOwnerMissing, message: err.Error()}
	}
	return err
}

// headerText returns a name for use in a header. Non-ASCII characters are percent-encoded.
func headerText(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return escapeHeader(s)
		}
	}
	return s
}

func escapeHeader(s string) string {
	const digits = "0123456789ABCDEF"
	var out []byte
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			out = append(out, '%', digits[s[i]>>4], digits[s[i]&15])
		} else {
			out = append(out, s[i])
		}
	}
	return string(out)
}

// found returns a response with a resource, or 304 if the client has the version with this etag.
func (x *exchange) found(status int, etag string, body []byte) *answer {
	x.set(aETag, etag)
	if status == http.StatusOK && x.request.Method == get && matchesETag(x.header.Get(hIfNoneMatch), etag) {
		return &answer{status: http.StatusNotModified}
	}
	return &answer{status, body}
}

func matchesETag(condition, etag string) bool {
	return condition != "" && (condition == "*" || condition == etag)
}

// throughput parses the throughput headers of a new resource.
func throughput(h httpwire.Fields) (container.Throughput, error) {
	var t container.Throughput
	manual, automatic := h.Get(hThroughput), h.Get(hAutopilot)
	switch {
	case manual != "" && automatic != "":
		return t, badRequest("Both x-ms-offer-throughput and x-ms-cosmos-offer-autopilot-settings are set. Set only one of them.")
	case manual != "":
		n, err := strconv.ParseInt(manual, 10, 64)
		if err != nil || n <= 0 {
			return t, badRequest("x-ms-offer-throughput " + strconv.Quote(manual) +
				" is not a number of request units per second.")
		}
		t.Manual = n
	case automatic != "":
		var settings autopilot
		if err := json.Unmarshal([]byte(automatic), &settings); err != nil || settings.Max <= 0 {
			return t, badRequest(`x-ms-cosmos-offer-autopilot-settings must have the form {"maxThroughput": 1000}.`)
		}
		return settings.throughput(), nil
	}
	return t, nil
}

// idOf returns the ID in the body of a new resource.
func idOf(body []byte) (string, error) {
	var named struct {
		ID *string `json:"id"`
	}
	if err := json.Unmarshal(body, &named); err != nil {
		return "", badRequest("The body of the request must be a JSON object: " + err.Error())
	}
	if named.ID == nil {
		return "", badRequest(`The input content is invalid because the required property "id" is missing.`)
	}
	return *named.ID, nil
}

func (x *exchange) createDatabase(ctx context.Context) (*answer, error) {
	id, err := idOf(x.body)
	if err != nil {
		return nil, err
	}
	t, err := throughput(x.header)
	if err != nil {
		return nil, err
	}
	d, err := x.server.engine.CreateDatabase(ctx, id, t)
	if err != nil {
		return nil, err
	}
	return x.found(http.StatusCreated, d.Etag, d.Resource()), nil
}

func (x *exchange) readDatabase(context.Context) (*answer, error) {
	d, err := x.database()
	if err != nil {
		return nil, err
	}
	return x.found(http.StatusOK, d.Etag, d.Resource()), nil
}

func (x *exchange) deleteDatabase(ctx context.Context) (*answer, error) {
	d, err := x.database()
	if err != nil {
		return nil, err
	}
	return &answer{status: http.StatusNoContent}, x.server.engine.DeleteDatabase(ctx, d, x.header.Get(hIfMatch))
}

func (x *exchange) createContainer(ctx context.Context) (*answer, error) {
	d, err := x.database()
	if err != nil {
		return nil, missing(err, true)
	}
	t, err := throughput(x.header)
	if err != nil {
		return nil, err
	}
	c, err := x.server.engine.CreateContainer(ctx, d, x.body, t)
	if err != nil {
		return nil, err
	}
	x.setOwner(d, nil)
	x.setContainer(c)
	return x.found(http.StatusCreated, c.Etag, c.Resource()), nil
}

func (x *exchange) readContainer(ctx context.Context) (*answer, error) {
	c, err := x.container(false)
	if err != nil {
		return nil, err
	}
	x.setContainer(c)
	return x.found(http.StatusOK, c.Etag, x.withStatistics(ctx, c, c.Resource())), nil
}

// setContainer sets the headers of responses about a container.
func (x *exchange) setContainer(c *container.Container) {
	x.set(aIndexing, strconv.Itoa(x.server.engine.IndexProgress(c)))
	x.set(aQuota, quotaText)
	x.set(aUsage, usageText)
	x.sessionOf(c)
}

// withStatistics adds statistics of the physical partitions to a container and of all partitions to the headers if the
// client requests them.
func (x *exchange) withStatistics(ctx context.Context, c *container.Container, resource []byte) []byte {
	each := flag(x.header, hStatistics)
	if !each && !flag(x.header, hQuota) || len(resource) == 0 || resource[len(resource)-1] != '}' {
		return resource
	}
	sizes, total := x.server.engine.Sizes(ctx, c), uint64(0)
	for _, s := range sizes {
		total += s.DiskBytes >> 10
	}
	x.set(aUsage, fmt.Sprintf("documentSize=%d;documentsSize=%d;documentsCount=-1;collectionSize=%d;", total>>10, total,
		total))
	if !each {
		return resource
	}
	out := append(resource[:len(resource)-1:len(resource)-1], `,"statistics":[`...)
	ranges, _ := x.server.engine.Ranges(c)
	for i := range ranges {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, `{"id":`...)
		out = strconv.AppendQuote(out, ranges[i].ID)
		if i < len(sizes) {
			out = strconv.AppendUint(append(out, `,"sizeInKB":`...), sizes[i].DiskBytes>>10, 10)
			out = strconv.AppendUint(append(out, `,"sampledDistinctPartitionKeyCount":`...), sizes[i].Keys, 10)
		}
		out = append(out, `,"partitionKeys":[]}`...)
	}
	return append(out, "]}"...)
}

func (x *exchange) replaceContainer(ctx context.Context) (*answer, error) {
	c, err := x.container(false)
	if err != nil {
		return nil, err
	}
	if c, err = x.server.engine.ReplaceContainer(ctx, c, x.body, x.header.Get(hIfMatch)); err != nil {
		return nil, err
	}
	x.setContainer(c)
	return x.found(http.StatusOK, c.Etag, c.Resource()), nil
}

func (x *exchange) deleteContainer(ctx context.Context) (*answer, error) {
	c, err := x.container(false)
	if err != nil {
		return nil, err
	}
	return &answer{status: http.StatusNoContent}, x.server.engine.DeleteContainer(ctx, c, x.header.Get(hIfMatch))
}
