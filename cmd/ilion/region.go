// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"os"

	"github.com/ilion-db/ilion/internal/control/regions"
)

type regionCommand struct {
	Add    regionAddCommand    `cmd:"" help:"Register a region so that its nodes can join"`
	List   regionListCommand   `cmd:"" help:"List the regions of the cluster"`
	Remove regionRemoveCommand `cmd:"" help:"Remove a region that has no nodes"`
}

// regionName is the argument that identifies a region.
type regionName struct {
	Region string `arg:"" placeholder:"REGION" help:"Region name, as in ilion start --region"`
}

type regionAddCommand struct {
	adminClient
	regionName
}

// Run registers a region.
func (c *regionAddCommand) Run(out io.Writer) error { return c.changeRegion(out, "add", c.Region) }

type regionRemoveCommand struct {
	adminClient
	regionName
	Yes bool `name:"yes" help:"Do not ask for confirmation"`
}

// Run asks for confirmation and removes a region.
func (c *regionRemoveCommand) Run(out io.Writer) error {
	if !c.Yes {
		if !isTerminal(os.Stdin) {
			return &usageError{noTerminal}
		}
		if err := confirm(os.Stdin, out, "Nodes of region "+c.Region+" can no longer join."); err != nil {
			return err
		}
	}
	return c.changeRegion(out, "remove", c.Region)
}

type regionListCommand struct {
	adminClient
	refreshOptions
}

// Run lists the regions.
func (c *regionListCommand) Run(out io.Writer) error {
	return c.show(out, func(ctx context.Context) (any, func(io.Writer), error) {
		var list []regions.Region
		err := c.fetch(ctx, "/regions", &list)
		return list, func(out io.Writer) { printRegions(out, list) }, err
	})
}

func printRegions(out io.Writer, list []regions.Region) {
	w := newTable(out, "REGION", "NUMBER", "NODES", "REPLICAS")
	defer w.end()
	for _, r := range list {
		holds := "none"
		if r.Home {
			holds = "all tables"
		}
		w.row(r.Name, r.Number, r.Nodes, holds)
	}
}

// changeRegion adds or removes a region. Any node of the cluster can process the request.
func (d adminClient) changeRegion(out io.Writer, what, region string) error {
	body, err := d.request(http.MethodPost, "/region/"+what+"?region="+url.QueryEscape(region))
	if err != nil {
		return err
	}
	_, err = out.Write(body)
	return err
}
