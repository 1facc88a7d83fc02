// SPDX-License-Identifier: Apache-2.0

package parser

import "strings"

// with parses an optional WITH clause of properties.
func (p *parser) with() []Property {
	if !p.accept(kwWith) {
		return nil
	}
	return p.properties()
}

// properties parses properties that are joined by AND.
func (p *parser) properties() []Property {
	var list []Property
	for {
		list = p.property(list)
		if !p.accept(kwAnd) {
			return list
		}
	}
}

// propertiesMax limits the number of properties in a statement and the number of entries in a map property. The limit
// is necessary because the search for duplicates is linear. Cassandra has about thirty table options.
const propertiesMax = 1000

// property parses name = value and appends the property to list.
func (p *parser) property(list []Property) []Property {
	prop := Property{Name: p.name()}
	p.expect(tEqual)
	if p.is(tOpenBrace) {
		prop.IsMap = true
		prop.Map = p.propertyMap()
	} else {
		prop.Value = p.propertyValue()
	}
	if len(list) >= propertiesMax {
		p.refuseBound("Too many properties, more than the allowed maximum of %d", propertiesMax)
	}
	for i := range list {
		if list[i].Name.Name == prop.Name.Name {
			p.refuse("Multiple %s for property '%s'", p.definitions, prop.Name.Name)
			break
		}
	}
	return append(list, prop)
}

// propertyValue parses a constant, or an unreserved keyword that represents its own text.
func (p *parser) propertyValue() Constant {
	if p.tok.kind.isKeyword() && p.tok.kind.isName() {
		c := Constant{Kind: StringConstant, Text: strings.ToLower(p.text())}
		p.advance()
		return c
	}
	c := p.constantValue()
	if c.Kind == 0 {
		p.fail()
	}
	return c
}

// propertyMap parses a map of constants. Like Cassandra, it parses any terms and then rejects terms that are not
// constants. The error contains the text of the rejected term.
func (p *parser) propertyMap() []PropertyEntry {
	p.expect(tOpenBrace)
	entries := []PropertyEntry{}
	if p.accept(tCloseBrace) {
		return entries
	}
	for {
		key := p.term()
		p.expect(tColon)
		value := p.term()
		if p.failed {
			return nil
		}
		entries = p.propertyEntry(entries, key, value)
		if !p.accept(tComma) {
			break
		}
	}
	p.expect(tCloseBrace)
	return entries
}

func (p *parser) propertyEntry(entries []PropertyEntry, key, value Term) []PropertyEntry {
	const noMarkers = " (bind variables are not supported in DDL queries)"
	k, ok := key.(*Constant)
	if !ok {
		why := ""
		if _, marker := key.(*Marker); marker {
			why = noMarkers
		}
		p.refuse("Invalid property name: %s%s", termText(key), why)
		return nil
	}
	v, ok := value.(*Constant)
	if !ok {
		why := ""
		if _, marker := value.(*Marker); marker {
			why = noMarkers
		}
		p.refuse("Invalid property value: %s for property: %s%s", termText(value), termText(key), why)
		return nil
	}
	if len(entries) >= propertiesMax {
		p.refuseBound("Too many entries in a property, more than the allowed maximum of %d", propertiesMax)
	}
	for _, e := range entries {
		if e.Key == k.Text {
			p.refuse("Multiple definition for property %s", k.Text)
			return nil
		}
	}
	return append(entries, PropertyEntry{Key: k.Text, Value: v.Text})
}

// termText formats a term for an error text.
func termText(t Term) string {
	if _, null := t.(*Null); null {
		return "NULL"
	}
	var b printer
	b.term(t)
	return shorten(b.String(), tIdent)
}

// tableOptions parses the optional WITH clause of a table or view.
func (p *parser) tableOptions() TableOptions {
	var o TableOptions
	if !p.accept(kwWith) {
		return o
	}
	for {
		switch {
		case p.is(kwCompact) && p.peek(1) == kwStorage:
			p.advance()
			p.advance()
			o.CompactStorage = true
		case p.is(kwClustering) && p.peek(1) == kwOrder:
			p.advance()
			p.advance()
			p.expect(kwBy)
			o.ClusteringOrder = p.clusteringOrder(o.ClusteringOrder)
		default:
			o.Properties = p.property(o.Properties)
		}
		if !p.accept(kwAnd) {
			return o
		}
	}
}

// clusteringOrder parses (c DESC, d ASC) and appends the columns to list.
func (p *parser) clusteringOrder(list []ClusteringOrder) []ClusteringOrder {
	p.expect(tOpen)
	for {
		c := ClusteringOrder{Column: p.name()}
		if !p.accept(kwAsc) {
			if !p.is(kwDesc) {
				p.fail()
			}
			p.advance()
			c.Descending = true
		}
		list = append(list, c)
		if !p.accept(tComma) {
			break
		}
	}
	p.expect(tClose)
	return list
}
