// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"text/tabwriter"

	"github.com/ilion-db/ilion/internal/node"
	"github.com/ilion-db/ilion/internal/server/admin"
)

// accountCommand groups the commands for the account of the REST API.
type accountCommand struct {
	Keys accountKeysCommand `cmd:"" help:"Show the keys of the REST API"`
}

type accountKeysCommand struct {
	Data string `env:"ILION_DATA" default:"./ilion-data" placeholder:"DIR" help:"Data directory of the node (default ${default})"`
	JSON bool   `name:"json" help:"Print the keys as JSON"`
}

// Run prints the keys and the connection string. A node returns the keys only to the owner of the node's data
// directory.
func (c *accountKeysCommand) Run(out io.Writer) error {
	body, err := adminClient{}.requestSocket(filepath.Join(c.Data, node.AdminSocket), http.MethodGet, "/keys")
	if err != nil {
		return err
	}
	var k admin.Keys
	if err := json.Unmarshal(body, &k); err != nil {
		return fmt.Errorf("cannot decode the response of the node with the data directory %s", c.Data)
	}
	if c.JSON {
		_, err := out.Write(body)
		return err
	}
	if k.Primary == "" {
		return errors.New("the node has no account keys: REST is disabled (--rest off, or its address is in use) and " +
			"--cosmos-cql is not set, or the cluster has not generated the keys yet")
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if k.CQL != "" {
		fmt.Fprintf(w, "CQL\t%s\n", k.CQL)
	}
	if k.Endpoint != "" {
		fmt.Fprintf(w, "endpoint\t%s\n", k.Endpoint)
	}
	fmt.Fprintf(w, "primary\t%s\nsecondary\t%s\nread-only\t%s\n", k.Primary, k.Secondary, k.ReadOnly)
	if k.Endpoint != "" {
		fmt.Fprintf(w, "connection string\tAccountEndpoint=%s;AccountKey=%s;\n", k.Endpoint, k.Primary)
	}
	return w.Flush()
}
