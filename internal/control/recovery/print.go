// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/ilion-db/ilion/internal/model/keys"
)

// stampText formats the time of a timestamp.
func stampText(micros int64) string {
	if micros == 0 {
		return "-"
	}
	return time.UnixMicro(micros).UTC().Format("2006-01-02 15:04:05.000")
}

// Print prints the state of a node.
func (s *NodeState) Print(w io.Writer) {
	fmt.Fprintf(w, "node %s of cluster %x; %d starts; metadata version %d\n\n", s.Node.Short(), s.Cluster,
		s.Start.Number,
		s.Version)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PARTITION\tTABLE\tREPLICA\tEPOCH\tTERM\tAPPLIED\tLAST\tVOTERS\tNEWEST WRITE")
	for i := range s.Replicas {
		r := &s.Replicas[i]
		name, table := fmt.Sprint(r.Partition), fmt.Sprint(r.meta.Span.Table)
		if r.Partition == keys.MetaPartition {
			name, table = "meta", "-"
		}
		if len(r.Meta) == 0 {
			fmt.Fprintf(t, "%s\t-\t%d\twaiting for its first snapshot\n", name, r.Replica)
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", name, table, r.Replica, r.meta.Epoch, r.LastTerm,
			r.meta.Applied,
			r.Last, len(r.meta.Voters), stampText(r.Newest))
	}
	_ = t.Flush()
}

// Print prints a plan and its losses, in descending order of loss.
func (p *Plan) Print(w io.Writer) {
	p.printNodes(w)
	count := map[Loss]int{}
	for i := range p.Groups {
		count[p.Groups[i].Loss]++
	}
	for _, l := range []struct {
		loss Loss
		text string
	}{
		{Gone, "GONE: no replica remains. All rows of these token ranges are lost. Empty partitions replace them:"},
		{Behind, "BEHIND: acknowledged writes after the newest remaining write are lost if only lost nodes stored " +
			"them. " +
			"The replica with the longest log is used:"},
		{Complete, "COMPLETE: the quorum is lost, but a remaining node has every acknowledged write. " +
			"The replica with the longest log is used:"},
	} {
		if count[l.loss] > 0 {
			fmt.Fprintf(w, "\n%s\n", l.text)
			p.printGroups(w, l.loss)
		}
	}
	if n := count[Whole]; n > 0 {
		fmt.Fprintf(w, "\nWHOLE: %d partitions have a quorum. They lose no data.\n", n)
	}
	for _, text := range p.Warnings {
		fmt.Fprintf(w, "\nWARNING: %s\n", text)
	}
	switch {
	case count[Gone]+count[Behind] > 0:
		fmt.Fprint(w, "\nDATA LOSS IS POSSIBLE: see above. If you can start a lost node again, do so instead of "+
			"applying this plan.\n")
	default:
		fmt.Fprint(w, "\nNo acknowledged write is lost.\n")
	}
}

func (p *Plan) printNodes(w io.Writer) {
	fmt.Fprintf(w, "Recovery of cluster %x. New cluster ID: %x\n\n", p.Cluster, p.Next)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, n := range p.Nodes {
		fmt.Fprintf(t, "kept\t%s\t%s\t%s\n", n.Node.Node.Short(), n.Internal, n.Dir)
	}
	for _, n := range p.Lost {
		fmt.Fprintf(t, "lost\t%s\t%s\tthe cluster will reject its data directory\n", n.Node.Short(), n.Internal)
	}
	_ = t.Flush()
}

func (p *Plan) printGroups(w io.Writer, loss Loss) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if loss == Gone {
		fmt.Fprintln(t, "  TABLE\tPARTITION\tTOKEN RANGE\tSHARE OF THE RING")
		for i := range p.Pieces {
			g := &p.Pieces[i]
			fmt.Fprintf(t, "  %s\t%d\t%s\t%.1f %%\n", g.Name, g.Partition, g.Span, 100*g.Share)
		}
		_ = t.Flush()
		return
	}
	fmt.Fprintln(t, "  TABLE\tPARTITION\tVOTERS LEFT\tLONGEST LOG\tLAST INDEX\tNEWEST REMAINING WRITE")
	for i := range p.Groups {
		g := &p.Groups[i]
		if g.Loss != loss {
			continue
		}
		name := fmt.Sprint(g.Partition)
		if g.Partition == keys.MetaPartition {
			name = "meta"
		}
		fmt.Fprintf(t, "  %s\t%s\t%d of %d\t%s\t%d\t%s\n", g.Name, name, g.Left, g.Voters, g.Longest.Short(), g.Last,
			stampText(g.Newest))
	}
	_ = t.Flush()
}
