package tabletest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"millrace/shared/platform/table"
)

// GoString returns what rapid prints for a step of a failed history.
func (o single) GoString() string      { return brief(o.Write) }
func (o transaction) GoString() string { return "transaction" + list(o.writes) }
func (o batch) GoString() string       { return "batch" + list(o.writes) }
func (o get) GoString() string         { return fmt.Sprintf("get%+q only %q", o.keys, o.only) }
func (o paging) GoString() string      { return brief(o.Query) }
func (resume) GoString() string        { return "resume" }
func (scan) GoString() string          { return "scan" }

// brief formats writes, conditions and items for people, with long texts
// shortened.
func brief(x any) string {
	switch x := x.(type) {
	case table.Put:
		return "put" + brief(x.Item) + condition(x.If)
	case table.Update:
		return fmt.Sprintf("update%+q", x.Key) + list(x.Do) + condition(x.If)
	case table.Delete:
		return fmt.Sprintf("delete%+q", x.Key) + condition(x.If)
	case table.Check:
		return fmt.Sprintf("check%+q", x.Key) + condition(x.If)
	case table.Query:
		return fmt.Sprintf("query{%s %+q, range %d %+q %+q, reverse %t, limit %d, only %q%s}",
			x.Index, x.PK, x.Range.Kind, x.Range.From, x.Range.To, x.Reverse, x.Limit, x.Only, condition(x.Filter))
	case table.CondAll:
		return "and" + list(x)
	case table.CondAny:
		return "or" + list(x)
	case table.CondNot:
		return "not " + brief(x.Cond)
	case table.CondCompare:
		return x.Attr + [...]string{" = ", " <> ", " < ", " <= ", " > ", " >= "}[x.Op] + brief(x.Value)
	case table.CondIn:
		return x.Attr + " in " + list(x.Values)
	case table.CondExists:
		return fmt.Sprintf("%s exists %t", x.Attr, !x.Not)
	case table.CondPrefix:
		return x.Attr + " begins with " + brief(table.V(x.Prefix))
	case table.CondContains:
		return x.Attr + " contains " + brief(x.Value)
	case table.ActSet:
		return fmt.Sprintf("set %s %s, if absent %t", x.Attr, brief(x.Value), x.IfAbsent)
	case table.ActRemove:
		return "remove " + x.Attr
	case table.ActAdd:
		return "add to " + x.Attr + " " + brief(x.Value)
	case table.ActDrop:
		return "drop from " + x.Attr + " " + brief(x.Value)
	case table.ActAppend:
		return "append to " + x.Attr + " " + brief(x.Value)
	case table.Item:
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(x)) {
			parts = append(parts, name+": "+brief(x[name]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case table.Value:
		switch x.Kind() {
		case table.String, table.Binary:
			return fmt.Sprintf("%+q", short(x.Str()))
		case table.Number:
			return short(x.Str())
		case table.Bool:
			return fmt.Sprint(x.Bool())
		case table.ListKind:
			return list(x.List())
		case table.MapKind:
			return brief(table.Item(x.Map()))
		}
		return fmt.Sprintf("%s %+q", x.Kind(), x.Members())
	}
	return fmt.Sprintf("%+v", x)
}

func short(s string) string {
	if len(s) > 60 {
		return fmt.Sprintf("%s... of %d bytes", s[:20], len(s))
	}
	return s
}

func list[T any](xs []T) string {
	parts := make([]string, len(xs))
	for i, x := range xs {
		parts[i] = brief(x)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func condition(c table.Cond) string {
	if c == nil {
		return ""
	}
	return " if " + brief(c)
}
