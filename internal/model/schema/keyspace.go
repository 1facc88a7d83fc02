// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"maps"
	"regexp"
	"strings"

	"github.com/ilion-db/ilion/internal/model/dberr"
)

// These are the limits of names. Cassandra limits table names because it uses them as file names. The error for a
// table name mentions the limit for keyspaces.
const (
	KeyspaceNameMax = 48
	TableNameMax    = 222
)

var wordCharacters = regexp.MustCompile(`^\w+$`)

func checkKeyspaceName(name string) error {
	if len(name) > KeyspaceNameMax || !wordCharacters.MatchString(name) {
		return dberr.Invalidf("Keyspace name must not be empty, more than %d characters long, or contain "+
			"non-alphanumeric-underscore characters (got '%s')",
			KeyspaceNameMax, name)
	}
	return nil
}

// checkUserKeyspace rejects changes of system keyspaces.
func checkUserKeyspace(name string) error {
	if IsVirtualSystem(name) {
		return dberr.Invalidf("Virtual keyspace '%s' is not user-modifiable", name)
	}
	if IsLocalSystem(name) {
		return dberr.Invalidf("System keyspace '%s' is not user-modifiable", name)
	}
	return checkKeyspaceName(name)
}

func noKeyspace(name string) error { return dberr.Invalidf("Keyspace '%s' doesn't exist", name) }

// CreateKeyspace represents the statement CREATE KEYSPACE.
type CreateKeyspace struct {
	Stamp
	Name        string
	IfNotExists bool
	// Properties are the properties in the WITH clause.
	Properties []Property
	// Datacenters lists the data centers that have nodes. A replication_factor applies to these data centers.
	Datacenters []string
	// Database, if not nil, makes the keyspace a database of containers. The change assigns a number to the database.
	Database *Database
}

// AlterKeyspace represents the statement ALTER KEYSPACE.
type AlterKeyspace struct {
	Stamp
	Name        string
	IfExists    bool
	Properties  []Property
	Datacenters []string
	// Change, if not nil, modifies a copy of the descriptor of a database.
	Change func(d *Database)
	// Check has the same meaning as in DropKeyspace.
	Check func(s *Schema) error
}

// DropKeyspace represents the statement DROP KEYSPACE.
type DropKeyspace struct {
	Stamp
	Name     string
	IfExists bool
	// Check, if not nil, can reject the change. Its argument is the schema to which the change is applied.
	Check func(s *Schema) error
}

// keyspaceOptions are the properties of a keyspace. The parser validates these properties to the extent that is
// possible without the keyspace.
type keyspaceOptions struct {
	replication map[string]string // nil if not specified
	durable     *bool
	cosmos      []*Property
}

func readKeyspaceOptions(properties []Property) (keyspaceOptions, error) {
	var o keyspaceOptions
	for i := range properties {
		p := &properties[i]
		switch {
		case p.Name == "replication":
			if !p.IsMap {
				return o, dberr.Syntaxf("Invalid value for property 'replication'. It should be a map.")
			}
			o.replication = p.mapValue()
		case p.Name == "durable_writes":
			if p.IsMap {
				return o, notString(p.Name)
			}
			durable := isTrue(p.Value)
			o.durable = &durable
		case strings.HasPrefix(p.Name, cosmosPrefix), throughputOf(p.Name) != "":
			o.cosmos = append(o.cosmos, p)
		default:
			return o, dberr.Syntaxf("Unknown property '%s'", p.Name)
		}
	}
	if o.replication != nil && o.replication[replicationClass] == "" {
		return o, dberr.Configf("Missing replication strategy class")
	}
	return o, checkThroughputs(properties)
}

// set sets the options of Cosmos DB.
func (o *keyspaceOptions) set(options *map[string]string) error {
	for _, p := range o.cosmos {
		if err := setCosmos(options, p, false); err != nil {
			return err
		}
	}
	return nil
}

func (c *CreateKeyspace) apply(s *Schema) (*Schema, []Event, error) {
	if IsVirtualSystem(c.Name) && !c.release().VirtualTexts {
		return nil, nil, dberr.Invalidf("System keyspace '%s' is not user-modifiable", c.Name)
	}
	if err := checkUserKeyspace(c.Name); err != nil {
		return nil, nil, err
	}
	o, err := readKeyspaceOptions(c.Properties)
	if err != nil {
		return nil, nil, err
	}
	if o.replication == nil {
		return nil, nil, dberr.Invalidf("Missing mandatory option 'replication'")
	}
	if s.Keyspaces[c.Name] != nil {
		if c.IfNotExists {
			return s, nil, nil
		}
		return nil, nil, &dberr.AlreadyExists{Keyspace: c.Name, Message: `Cannot add existing keyspace "` + c.Name +
			`"`}
	}
	replication, err := prepareReplication(c.release(), c.Name, o.replication, nil, c.Datacenters)
	if err != nil {
		return nil, nil, err
	}
	ks := &Keyspace{Name: c.Name, Replication: replication, DurableWrites: true}
	if err := o.set(&ks.Options); err != nil {
		return nil, nil, err
	}
	if o.durable != nil {
		ks.DurableWrites = *o.durable
	}
	next := s.withKeyspace(ks)
	if c.Database != nil {
		d := *c.Database
		d.Number, ks.Database = s.NextID, &d
		next.NextID++
	}
	return next, []Event{{Change: Created, Target: TargetKeyspace, Keyspace: c.Name}}, nil
}

func (c *AlterKeyspace) apply(s *Schema) (*Schema, []Event, error) {
	if c.Check != nil {
		if err := c.Check(s); err != nil {
			return nil, nil, err
		}
	}
	if err := checkUserKeyspace(c.Name); err != nil {
		return nil, nil, err
	}
	o, err := readKeyspaceOptions(c.Properties)
	if err != nil {
		return nil, nil, err
	}
	old := s.Keyspaces[c.Name]
	if old == nil {
		if c.IfExists {
			return s, nil, nil
		}
		return nil, nil, noKeyspace(c.Name)
	}
	ks := *old
	if o.replication != nil {
		ks.Replication, err = prepareReplication(c.release(), c.Name, o.replication, old.Replication, c.Datacenters)
		if err != nil {
			return nil, nil, err
		}
	}
	if o.durable != nil {
		ks.DurableWrites = *o.durable
	}
	if len(o.cosmos) > 0 {
		ks.Options = maps.Clone(old.Options)
		if err := o.set(&ks.Options); err != nil {
			return nil, nil, err
		}
	}
	changed := ks.DurableWrites != old.DurableWrites || !maps.Equal(ks.Replication, old.Replication) ||
		!maps.Equal(ks.Options, old.Options)
	if old.Database != nil {
		d := *old.Database
		if c.Change != nil {
			c.Change(&d)
			changed = changed || d.Increment != old.Database.Increment
		}
		d.Revision = s.Revision + 1
		ks.Database = &d
	}
	if !changed {
		return s, nil, nil
	}
	return s.withKeyspace(&ks), []Event{{Change: Updated, Target: TargetKeyspace, Keyspace: c.Name}}, nil
}

func (c *DropKeyspace) apply(s *Schema) (*Schema, []Event, error) {
	if c.Check != nil {
		if err := c.Check(s); err != nil {
			return nil, nil, err
		}
	}
	if err := checkUserKeyspace(c.Name); err != nil {
		return nil, nil, err
	}
	if IsSystem(c.Name) {
		return nil, nil, dberr.Unauthorizedf("Cannot DROP <keyspace %s>", c.Name)
	}
	ks := s.Keyspaces[c.Name]
	if ks == nil {
		if c.IfExists {
			return s, nil, nil
		}
		return nil, nil, noKeyspace(c.Name)
	}
	events := []Event{{Change: Dropped, Target: TargetKeyspace, Keyspace: c.Name}}
	for _, t := range ks.SortedTables() {
		events = append(events, Event{Change: Dropped, Target: TargetTable, Keyspace: c.Name, Name: t.Name})
	}
	next := *s
	next.Keyspaces = maps.Clone(s.Keyspaces)
	delete(next.Keyspaces, c.Name)
	return &next, events, nil
}
