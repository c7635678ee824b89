package dynamo

import (
	"strings"

	"millrace/shared/platform/table"
)

// truth is what is known of a condition without an item.
type truth int

const (
	open   truth = iota // it depends on the item
	always              // it holds for any item, and for none
	never
)

// nobody is an attribute that no item has.
const nobody = "-"

// surely is the constant true as a condition on an attribute, because DynamoDB
// has no constants.
func surely(attr string) table.Cond { return table.CondAny{table.Exists(attr), table.Absent(attr)} }
func hardly(attr string) table.Cond { return table.CondAll{table.Exists(attr), table.Absent(attr)} }

// condition writes a condition, or "" if it always holds.
func (e *expression) condition(c table.Cond) string { return e.conditionOn(nobody, c) }

func (e *expression) conditionOn(attr string, c table.Cond) string {
	switch c, known := simplify(c); known {
	case always:
		return ""
	case never:
		return e.write(hardly(attr))
	default:
		return e.write(c)
	}
}

// filter writes a query's filter. It must not refer to the queried key, nor to
// attributes that the index does not hold.
func (e *expression) filter(q table.Query) string {
	if q.Index != "" {
		return e.conditionOn("pk", q.Filter)
	}
	return e.condition(q.Filter)
}

// check writes the condition of a Check, which must not be empty.
func (e *expression) check(c table.Cond) string {
	if text := e.condition(c); text != "" {
		return text
	}
	return e.write(surely(nobody))
}

// simplify removes constants from a condition at any depth: And() holds, Or()
// does not. DynamoDB supports neither empty groups nor groups of one.
func simplify(c table.Cond) (table.Cond, truth) {
	switch c := c.(type) {
	case nil:
		return nil, always
	case table.CondAll:
		rest, known := join(c, always)
		return group(table.CondAll(rest), rest), known
	case table.CondAny:
		rest, known := join(c, never)
		return group(table.CondAny(rest), rest), known
	case table.CondNot:
		inner, known := simplify(c.Cond)
		switch known {
		case always:
			return nil, never
		case never:
			return nil, always
		}
		return table.CondNot{Cond: inner}, open
	}
	return c, open
}

// join simplifies the members of a group. It drops neutral members; a member of
// the opposite truth decides the group.
func join(cs []table.Cond, neutral truth) ([]table.Cond, truth) {
	var rest []table.Cond
	for _, c := range cs {
		switch c, known := simplify(c); known {
		case neutral:
		case open:
			rest = append(rest, c)
		default:
			return nil, known
		}
	}
	if len(rest) == 0 {
		return nil, neutral
	}
	return rest, open
}

func group(whole table.Cond, members []table.Cond) table.Cond {
	if len(members) == 1 {
		return members[0]
	}
	return whole
}

var operators = map[table.Op]string{
	table.OpEq: "=", table.OpNe: "<>", table.OpLt: "<", table.OpLe: "<=", table.OpGt: ">", table.OpGe: ">=",
}

// write writes a condition without constants.
func (e *expression) write(c table.Cond) string {
	switch c := c.(type) {
	case table.CondExists:
		if c.Not {
			return "attribute_not_exists(" + e.name(c.Attr) + ")"
		}
		return "attribute_exists(" + e.name(c.Attr) + ")"
	case table.CondCompare:
		return e.compare(c.Attr, operators[c.Op], c.Value)
	case table.CondIn:
		values := make([]string, len(c.Values))
		for i, v := range c.Values {
			values[i] = e.value(v)
		}
		return e.name(c.Attr) + " IN (" + strings.Join(values, ", ") + ")"
	case table.CondPrefix:
		return e.call("begins_with", c.Attr, table.V(c.Prefix))
	case table.CondContains:
		return e.call("contains", c.Attr, c.Value)
	case table.CondAll:
		return e.group(c, " AND ")
	case table.CondAny:
		return e.group(c, " OR ")
	case table.CondNot:
		return "NOT (" + e.write(c.Cond) + ")"
	}
	return ""
}

// group writes the members of a group. Only members that are groups get
// parentheses, because DynamoDB rejects redundant ones.
func (e *expression) group(cs []table.Cond, word string) string {
	parts := make([]string, len(cs))
	for i, c := range cs {
		parts[i] = e.write(c)
		switch c.(type) {
		case table.CondAll, table.CondAny:
			parts[i] = "(" + parts[i] + ")"
		}
	}
	return strings.Join(parts, word)
}
