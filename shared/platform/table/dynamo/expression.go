package dynamo

import (
	"fmt"
	"strconv"
	"strings"

	"millrace/shared/platform/table"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// expression builds the expressions of one request. Names and values occur only
// as placeholders, so data is never parsed as syntax.
type expression struct {
	names  map[string]string // attribute by placeholder
	marks  map[string]string // placeholder by attribute
	values map[string]types.AttributeValue
}

// name returns the placeholder of an attribute.
func (e *expression) name(attr string) string {
	if mark, ok := e.marks[attr]; ok {
		return mark
	}
	if e.names == nil {
		e.names, e.marks = map[string]string{}, map[string]string{}
	}
	mark := "#" + strconv.Itoa(len(e.names))
	e.names[mark], e.marks[attr] = attr, mark
	return mark
}

// value returns the placeholder of a value.
func (e *expression) value(v table.Value) string {
	if e.values == nil {
		e.values = map[string]types.AttributeValue{}
	}
	mark := ":" + strconv.Itoa(len(e.values))
	e.values[mark] = encode(v)
	return mark
}

// compare writes a comparison of an attribute.
func (e *expression) compare(attr, op string, v table.Value) string {
	return e.name(attr) + " " + op + " " + e.value(v)
}

// call writes a function call on an attribute and a value.
func (e *expression) call(function, attr string, v table.Value) string {
	return function + "(" + e.name(attr) + ", " + e.value(v) + ")"
}

// fit checks an expression's length and returns it for a request, or nil if it
// is empty.
func fit(expression string) (*string, error) {
	if expression == "" {
		return nil, nil
	}
	if len(expression) > table.MaxExpressionBytes {
		return nil, fmt.Errorf("%w: expression of %d bytes, at most %d", table.ErrLimit, len(expression), table.MaxExpressionBytes)
	}
	return &expression, nil
}

// update writes the actions of an Update, or "" if there are none.
func (e *expression) update(actions []table.Action) string {
	var set, remove, add, drop []string
	for _, a := range actions {
		switch a := a.(type) {
		case table.ActSet:
			if name := e.name(a.Attr); a.IfAbsent {
				set = append(set, name+" = "+e.call("if_not_exists", a.Attr, a.Value))
			} else {
				set = append(set, name+" = "+e.value(a.Value))
			}
		case table.ActAppend:
			begun := e.call("if_not_exists", a.Attr, table.List())
			set = append(set, e.name(a.Attr)+" = list_append("+begun+", "+e.value(a.Value)+")")
		case table.ActRemove:
			remove = append(remove, e.name(a.Attr))
		case table.ActAdd:
			add = append(add, e.name(a.Attr)+" "+e.value(a.Value))
		case table.ActDrop:
			drop = append(drop, e.name(a.Attr)+" "+e.value(a.Value))
		}
	}
	var clauses []string
	clause := func(word string, parts []string) {
		if len(parts) > 0 {
			clauses = append(clauses, word+" "+strings.Join(parts, ", "))
		}
	}
	clause("SET", set)
	clause("REMOVE", remove)
	clause("ADD", add)
	clause("DELETE", drop)
	return strings.Join(clauses, " ")
}

// projection writes the attributes to read together with the key's, or nil for
// all.
func (e *expression) projection(only []string) *string {
	if len(only) == 0 {
		return nil
	}
	text := e.name("pk") + ", " + e.name("sk")
	for _, attr := range only {
		text += ", " + e.name(attr)
	}
	return &text
}

// key writes the condition for a query's partition and range.
func (e *expression) key(q table.Query) string {
	pk, sk := q.Index.Attributes()
	partition := e.compare(pk, "=", table.V(q.PK))
	from := table.V(q.Range.From)
	switch q.Range.Kind {
	case table.RangeEqual:
		return partition + " AND " + e.compare(sk, "=", from)
	case table.RangePrefix:
		return partition + " AND " + e.call("begins_with", sk, from)
	case table.RangeBetween:
		return partition + " AND " + e.compare(sk, "BETWEEN", from) + " AND " + e.value(table.V(q.Range.To))
	case table.RangeAtLeast:
		return partition + " AND " + e.compare(sk, ">=", from)
	case table.RangeAfter:
		return partition + " AND " + e.compare(sk, ">", from)
	case table.RangeAtMost:
		return partition + " AND " + e.compare(sk, "<=", from)
	case table.RangeBefore:
		return partition + " AND " + e.compare(sk, "<", from)
	}
	return partition
}
