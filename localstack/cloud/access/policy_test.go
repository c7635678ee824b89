package access

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func parse(t *testing.T, statements string) (Policy, error) {
	t.Helper()
	var document any
	require.NoError(t, json.Unmarshal([]byte(`{"Version": "2012-10-17", "Statement": [`+statements+`]}`), &document))
	return Parse(document)
}

const (
	theTable = "arn:aws:dynamodb:eu-west-1:1:table/t"
	reads    = `{"Sid": "Reads", "Effect": "Allow", "Action": ["dynamodb:GetItem", "dynamodb:Query"], "Resource": "` + theTable + `"}`
)

// when returns a statement that allows or denies everything under conditions.
func when(effect, conditions string) string {
	return `{"Sid": "When", "Effect": "` + effect + `", "Action": "dynamodb:*", "Resource": ["*"], "Condition": ` + conditions + `}`
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	keys := func(values ...string) Context { return Context{leadingKeys: values} }
	const (
		any_    = `{"ForAnyValue:StringLike": {"dynamodb:LeadingKeys": ["org_?#audit#*"]}}`
		all     = `{"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["${aws:PrincipalTag/org}#*", "${aws:PrincipalTag/org}"]}}`
		via     = `{"StringEquals": {"kms:ViaService": ["s3.eu-west-1.amazonaws.com"]}}`
		notVia  = `{"StringNotEquals": {"kms:ViaService": "s3.*"}}`
		twoKeys = `{"StringEquals": {"kms:ViaService": "a", "events:source": "b"}}`
	)
	tagged := func(org string, values ...string) Context {
		return Context{leadingKeys: values, "aws:PrincipalTag/org": {org}}
	}
	for _, c := range []struct {
		name, statements, action, resource string
		in                                 Context
		want                               Decision
	}{
		{"allowed", reads, "dynamodb:GetItem", theTable, nil, Decision{Allowed: true, Sid: "Reads"}},
		{"actions have no case", reads, "DynamoDB:getitem", theTable, nil, Decision{Allowed: true, Sid: "Reads"}},
		{"other action", reads, "dynamodb:PutItem", theTable, nil, Decision{}},
		{"other resource", reads, "dynamodb:GetItem", theTable + "2", nil, Decision{}},
		{"index is another resource", reads, "dynamodb:Query", theTable + "/index/x", nil, Decision{}},
		{"resources have case", reads, "dynamodb:GetItem", strings.ToUpper(theTable), nil, Decision{}},
		{"deny wins", reads + "," + when("Deny", any_), "dynamodb:GetItem", theTable, keys("org_1#audit#3"), Decision{Explicit: true, Sid: "When"}},
		{"deny wins in any order", when("Deny", any_) + "," + reads, "dynamodb:GetItem", theTable, keys("x", "org_1#audit#3"), Decision{Explicit: true, Sid: "When"}},
		{"deny of other partitions", reads + "," + when("Deny", any_), "dynamodb:GetItem", theTable, keys("org_1#auditor"), Decision{Allowed: true, Sid: "Reads"}},
		{"any of none", reads + "," + when("Deny", any_), "dynamodb:GetItem", theTable, nil, Decision{Allowed: true, Sid: "Reads"}},
		{"all", when("Allow", all), "dynamodb:GetItem", theTable, tagged("o1", "o1#a", "o1"), Decision{Allowed: true, Sid: "When"}},
		{"not all", when("Allow", all), "dynamodb:GetItem", theTable, tagged("o1", "o1#a", "o2#a"), Decision{}},
		{"longer tag", when("Allow", all), "dynamodb:GetItem", theTable, tagged("o1", "o12#a"), Decision{}},
		{"wildcard in a tag is text", when("Allow", all), "dynamodb:GetItem", theTable, tagged("*", "o2#a"), Decision{}},
		{"text of a tag", when("Allow", all), "dynamodb:GetItem", theTable, tagged("*", "*#a"), Decision{Allowed: true, Sid: "When"}},
		{"no tag", when("Allow", all), "dynamodb:GetItem", theTable, keys("#a"), Decision{}},
		{"all of none", when("Allow", all), "dynamodb:GetItem", theTable, tagged("o1"), Decision{Allowed: true, Sid: "When"}},
		{"equal", when("Allow", via), "dynamodb:GetItem", theTable, Context{"kms:ViaService": {"s3.eu-west-1.amazonaws.com"}}, Decision{Allowed: true, Sid: "When"}},
		{"unequal", when("Allow", via), "dynamodb:GetItem", theTable, Context{"kms:ViaService": {"sqs.eu-west-1.amazonaws.com"}}, Decision{}},
		{"absent", when("Allow", via), "dynamodb:GetItem", theTable, nil, Decision{}},
		{"negated, absent", when("Allow", notVia), "dynamodb:GetItem", theTable, nil, Decision{Allowed: true, Sid: "When"}},
		{"equality has no wildcards", when("Deny", notVia), "dynamodb:GetItem", theTable, Context{"kms:ViaService": {"s3.x"}}, Decision{Explicit: true, Sid: "When"}},
		{"one of two keys", when("Allow", twoKeys), "dynamodb:GetItem", theTable, Context{"kms:ViaService": {"a"}, "events:source": {"c"}}, Decision{}},
		{"both keys", when("Allow", twoKeys), "dynamodb:GetItem", theTable, Context{"kms:ViaService": {"a"}, "events:source": {"b"}}, Decision{Allowed: true, Sid: "When"}},
		{"not action", `{"Sid": "N", "Effect": "Allow", "NotAction": "s3:*", "Resource": "*"}`, "dynamodb:GetItem", theTable, nil, Decision{Allowed: true, Sid: "N"}},
		{"not this action", `{"Sid": "N", "Effect": "Allow", "NotAction": "s3:*", "Resource": "*"}`, "s3:GetObject", "arn:aws:s3:::b/k", nil, Decision{}},
		{"wildcards end at colons", `{"Sid": "N", "Effect": "Allow", "Action": "*", "Resource": "arn:aws:sqs:*:q"}`, "sqs:SendMessage", "arn:aws:sqs:eu-west-1:1:q", nil, Decision{}},
		{"wildcards in keys of objects", `{"Sid": "N", "Effect": "Allow", "Action": "s3:*", "Resource": "arn:aws:s3:::b/*/runs/*"}`, "s3:PutObject", "arn:aws:s3:::b/o/runs/a:b/c", nil, Decision{Allowed: true, Sid: "N"}},
		{"variable in a resource", `{"Sid": "N", "Effect": "Allow", "Action": "s3:*", "Resource": "arn:aws:s3:::b/${aws:PrincipalTag/org}/*"}`, "s3:PutObject", "arn:aws:s3:::b/o2/x", tagged("o1"), Decision{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := parse(t, c.statements)
			require.NoError(t, err)
			got, err := p.Decide(Call{Action: c.action, Resource: c.resource, Context: c.in})
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestUnknownElementsAreErrors(t *testing.T) {
	t.Parallel()
	for statement, want := range map[string]string{
		when("Allow", `{"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}`):              "the condition IpAddress is not known",
		when("Allow", `{"StringLikeIfExists": {"kms:ViaService": "a"}}`):            "the condition StringLikeIfExists is not known",
		when("Deny", `{"ForSomeValues:StringLike": {"dynamodb:LeadingKeys": "a"}}`): "the condition ForSomeValues:StringLike is not known",
		when("Allow", `{"StringEquals": {"aws:RequestedRegion": "eu-west-1"}}`):     "the condition key aws:RequestedRegion is not known",
		when("Perhaps", `{}`): `the effect "Perhaps"`,
		`{"Effect": "Allow", "Action": "a", "NotResource": "*"}`:                                    "NotResource",
		`{"Effect": "Allow", "Action": "a", "Resource": "*", "Principal": "*"}`:                     "Principal",
		`{"Effect": "Allow", "Resource": "*"}`:                                                      "either Action or NotAction",
		`{"Effect": "Allow", "Action": "a", "NotAction": "b", "Resource": "*"}`:                     "either Action or NotAction",
		`{"Effect": "Allow", "Action": "a"}`:                                                        "no Resource",
		`{"Effect": "Allow", "Action": "a", "Resource": [{"Fn::Sub": "${AWS::Region}"}]}`:           "cannot unmarshal",
		`{"Effect": "Allow", "Action": "a", "Resource": "*", "Condition": {"Null": {"a": "true"}}}`: "the condition Null",
	} {
		_, err := parse(t, statement)
		assert.ErrorContains(t, err, want, statement)
	}
	_, err := Parse(map[string]any{"Version": "2008-10-17", "Statement": []any{}})
	require.ErrorContains(t, err, "2008-10-17")

	p, err := parse(t, when("Deny", `{"StringLike": {"dynamodb:LeadingKeys": "a"}}`))
	require.NoError(t, err)
	_, err = p.Decide(Call{Action: "dynamodb:GetItem", Resource: theTable, Context: Context{leadingKeys: {"a", "b"}}})
	require.ErrorContains(t, err, "dynamodb:LeadingKeys has 2 values")
}

// FuzzLike compares the matcher with regular expressions.
func FuzzLike(f *testing.F) {
	for _, seed := range [][2]string{
		{"", ""}, {"*", ""}, {"a*b", "aXbXb"}, {"a?b", "ab"}, {"*a*a*", "aa"}, {"org_??#*", "org_1ü#a\n"}, {"**?", "x"}, {"a.b", "axb"}, {"[a]", "a"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if !utf8.ValidString(pattern) || !utf8.ValidString(text) || strings.ContainsAny(pattern, "\uE000\uE001\uE002") || len(pattern) > 200 {
			t.Skip()
		}
		expression := strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(pattern))
		want := regexp.MustCompile(`(?s)\A` + expression + `\z`).MatchString(text)
		if got := like(pattern, text); got != want {
			t.Errorf("%q matches %q: %v", pattern, text, got)
		}
	})
}

// FuzzFill: the value of a variable is text, whatever is in it.
func FuzzFill(f *testing.F) {
	f.Add("org_1", "org_1")
	f.Add("*", "org_2")
	f.Add("${*}", "$")
	f.Fuzz(func(t *testing.T, tag, other string) {
		if !utf8.ValidString(tag) || !utf8.ValidString(other) || strings.ContainsAny(tag+other, "\uE000\uE001\uE002") {
			t.Skip()
		}
		filled, ok := fill("${aws:PrincipalTag/org}#*", Context{"aws:PrincipalTag/org": {tag}})
		if !ok || !like(filled, tag+"#flows") {
			t.Errorf("%q does not match its own partition", tag)
		}
		if partition := other + "#flows"; like(filled, partition) && !strings.HasPrefix(partition, tag+"#") {
			t.Errorf("%q matches %q", tag, partition)
		}
	})
}
