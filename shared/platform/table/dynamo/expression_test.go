package dynamo

import (
	"regexp"
	"strings"
	"testing"

	"millrace/shared/platform/table"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestConditions(t *testing.T) {
	t.Parallel()
	a, b := table.Eq("a", 1), table.Lt("b", "x")
	for _, c := range []struct {
		cond table.Cond
		want string
	}{
		{nil, ""},
		{a, "#0 = :0"},
		{table.Ne("a", 1), "#0 <> :0"},
		{table.Le("a", 1), "#0 <= :0"},
		{table.Gt("a", 1), "#0 > :0"},
		{table.Ge("a", 1), "#0 >= :0"},
		{table.IsNew(), "attribute_not_exists(#0)"},
		{table.Exists("a"), "attribute_exists(#0)"},
		{table.In("a", 1, 2), "#0 IN (:0, :1)"},
		{table.HasPrefix("a", "x"), "begins_with(#0, :0)"},
		{table.Contains("a", 1), "contains(#0, :0)"},
		{table.And(a, b, a), "#0 = :0 AND #1 < :1 AND #0 = :2"},
		{table.And(a, table.Or(b, a)), "#0 = :0 AND (#1 < :1 OR #0 = :2)"},
		{table.Or(table.And(a, b), table.Not(table.Or(a, b))), "(#0 = :0 AND #1 < :1) OR NOT (#0 = :2 OR #1 < :3)"},
		{table.Not(a), "NOT (#0 = :0)"},
		{table.And(table.Or(table.And(a))), "#0 = :0"},
		{table.And(), ""},
		{table.Not(table.Or()), ""},
		{table.Or(a, table.And()), ""},
		{table.Or(), "attribute_exists(#0) AND attribute_not_exists(#0)"},
		{table.And(a, table.Or()), "attribute_exists(#0) AND attribute_not_exists(#0)"},
		{table.Or(table.Or(), b), "#0 < :0"},
	} {
		var e expression
		assert.Equal(t, c.want, e.condition(c.cond))
		assert.Len(t, e.names, len(e.marks))
	}
	var e expression
	assert.Equal(t, "attribute_exists(#0) OR attribute_not_exists(#0)", e.check(table.And()), "a Check must have a condition")
}

func TestUpdates(t *testing.T) {
	t.Parallel()
	var e expression
	assert.Equal(t, "SET #0 = :0, #3 = if_not_exists(#3, :2), #5 = list_append(if_not_exists(#5, :4), :5)"+
		" REMOVE #1 ADD #2 :1, #6 :6 DELETE #4 :3",
		e.update([]table.Action{
			table.Set("s", 1), table.Remove("r"), table.Add("n", 1), table.SetIfAbsent("i", 1),
			table.DropFromSet("d", 1), table.Append("l", 1), table.AddToSet("u", "x"),
		}))
	assert.Equal(t, map[string]string{"#0": "s", "#1": "r", "#2": "n", "#3": "i", "#4": "d", "#5": "l", "#6": "u"}, e.names)
	assert.Equal(t, &types.AttributeValueMemberNS{Value: []string{"1"}}, e.values[":3"])
	assert.Empty(t, new(expression).update(nil))
}

// syntax is everything that may occur in an expression.
var syntax = regexp.MustCompile(`^(?:#\d+|:\d+|AND|OR|NOT|IN|SET|REMOVE|ADD|DELETE|BETWEEN|attribute_exists|attribute_not_exists|` +
	`begins_with|contains|if_not_exists|list_append|<>|<=|>=|[<>=(), ])*$`)

func anyCond(depth int) *rapid.Generator[table.Cond] {
	return rapid.Custom(func(t *rapid.T) table.Cond {
		attr, s := rapid.String().Draw(t, "attr"), rapid.String().Draw(t, "value")
		switch n := rapid.IntRange(0, 4+3*min(depth, 1)).Draw(t, "form"); n {
		case 0:
			return table.CondCompare{Attr: attr, Op: table.Op(rapid.IntRange(0, 5).Draw(t, "op")), Value: table.V(s)}
		case 1:
			return table.CondExists{Attr: attr, Not: rapid.Bool().Draw(t, "not")}
		case 2:
			return table.In(attr, s, s)
		case 3:
			return table.HasPrefix(attr, s)
		case 4:
			return table.Contains(attr, s)
		case 5:
			return table.Not(anyCond(depth-1).Draw(t, "cond"))
		case 6:
			return table.And(rapid.SliceOfN(anyCond(depth-1), 0, 3).Draw(t, "all")...)
		default:
			return table.Or(rapid.SliceOfN(anyCond(depth-1), 0, 3).Draw(t, "any")...)
		}
	})
}

func TestDataIsNeverParsedAsSyntax(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var e expression
		text := e.condition(anyCond(3).Draw(t, "cond"))
		require.Regexp(t, syntax, text)
		require.False(t, doublyBracketed(text), "needless brackets are refused: %s", text)
		for mark := range e.names {
			require.Regexp(t, regexp.MustCompile(mark+`\b`), text, "an unused name is refused")
		}
		for mark := range e.values {
			require.Regexp(t, regexp.MustCompile(mark+`\b`), text, "an unused value is refused")
		}
	})
}

// doublyBracketed finds doubled parentheses.
func doublyBracketed(text string) bool {
	var open []int
	closedBy := map[int]int{}
	for i, c := range text {
		switch c {
		case '(':
			open = append(open, i)
		case ')':
			begun := open[len(open)-1]
			open = open[:len(open)-1]
			if closedBy[begun+1] == i-1 && i > 1 {
				return true
			}
			closedBy[begun] = i
		}
	}
	return false
}

func TestSimplifyPreservesMeaning(t *testing.T) {
	t.Parallel()
	some := table.Item{"pk": table.V("p"), "sk": table.V("s"), "": table.V(""), "a": table.V("A")}
	rapid.Check(t, func(t *rapid.T) {
		cond := anyCond(3).Draw(t, "cond")
		simple, known := simplify(cond)
		for _, item := range []table.Item{nil, some} {
			want := table.Holds(cond, item)
			switch known {
			case always:
				require.True(t, want)
			case never:
				require.False(t, want)
			default:
				require.Equal(t, want, table.Holds(simple, item))
			}
		}
	})
}

func TestExpressionIsNoLongerThanChecked(t *testing.T) {
	t.Parallel()
	many := rapid.SliceOfN(anyCond(2), 0, 60).Filter(func(cs []table.Cond) bool { return table.CheckCond(table.Or(cs...)) == nil })
	rapid.Check(t, func(t *rapid.T) {
		cond := table.Or(many.Draw(t, "conds")...)
		_, err := fit(new(expression).condition(cond))
		require.NoError(t, err)
	})
	_, err := fit(strings.Repeat("x", table.MaxExpressionBytes+1))
	require.ErrorIs(t, err, table.ErrLimit)
}
