package template_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/cloud/template"
)

var here = template.Environment{
	Region: "eu-north-1", AccountID: "000000000000", Parameters: map[string]string{"Given": "given"},
	Dynamic: func(reference string) (string, error) {
		if reference == "secretsmanager:arn-of-Secret:SecretString:key::" {
			return "s3cret", nil
		}
		return "", errors.New("no such secret")
	},
}

// name makes resources of which the name and the attributes tell where they
// come from.
func name(_ context.Context, r *template.Resource, _ map[string]any) (template.Attributes, error) {
	return template.Attributes{
		Ref: "name-of-" + r.ID,
		Att: map[string]string{"Arn": "arn-of-" + r.ID, "Nested.Name": "nested-of-" + r.ID},
	}, nil
}

func load(t *testing.T, files map[string]string) *template.Assembly {
	t.Helper()
	dir := fstest.MapFS{}
	for path, text := range files {
		dir[path] = &fstest.MapFile{Data: []byte(text)}
	}
	a, err := template.Load(dir)
	require.NoError(t, err)
	return a
}

// resolved is what the property V of a resource becomes, as JSON, "-" if it is
// left out.
func resolved(t *testing.T, value string) (string, error) {
	t.Helper()
	a := load(t, map[string]string{
		"App.template.json": `{
			"Parameters": {"Given": {"Type": "String"}, "Asked": {"Type": "String"}, "Usual": {"Type": "Number", "Default": 7}},
			"Mappings": {"Sizes": {"eu-north-1": {"small": 3}}},
			"Conditions": {
				"Yes": {"Fn::Equals": [{"Ref": "AWS::Region"}, "eu-north-1"]},
				"No": {"Fn::Not": [{"Condition": "Yes"}]},
				"Both": {"Fn::And": [{"Condition": "Yes"}, {"Condition": "No"}]},
				"Either": {"Fn::Or": [{"Condition": "No"}, {"Condition": "Yes"}]}
			},
			"Resources": {
				"Other": {"Type": "T"},
				"Absent": {"Type": "T", "Condition": "No"},
				"Secret": {"Type": "T"},
				"It": {"Type": "T", "Properties": {"V": ` + value + `}}
			}
		}`,
		"Base.template.json": `{
			"Resources": {"Bucket": {"Type": "T"}},
			"Outputs": {
				"Plain": {"Value": "not exported"},
				"Out": {"Value": {"Fn::GetAtt": ["Bucket", "Arn"]}, "Export": {"Name": {"Fn::Sub": "${AWS::StackName}:Bucket"}}}
			}
		}`,
	})
	made, err := a.Deploy(t.Context(), here, name)
	if err != nil {
		return "", err
	}
	for _, m := range made {
		if m.ID != "It" {
			continue
		}
		v, found := m.Properties["V"]
		if !found {
			return "-", nil
		}
		data, err := json.Marshal(v)
		require.NoError(t, err)
		return string(data), nil
	}
	return "", errors.New("It was not made")
}

func TestIntrinsicFunctions(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`"plain"`: `"plain"`, `12345678901234567890`: `12345678901234567890`, `null`: `null`, `[true, {"a": 1}]`: `[true,{"a":1}]`,
		`{"Ref": "AWS::Region"}`:                                                        `"eu-north-1"`,
		`{"Ref": "AWS::AccountId"}`:                                                     `"000000000000"`,
		`{"Ref": "AWS::Partition"}`:                                                     `"aws"`,
		`{"Ref": "AWS::URLSuffix"}`:                                                     `"amazonaws.com"`,
		`{"Ref": "AWS::StackName"}`:                                                     `"App"`,
		`{"Ref": "AWS::NoValue"}`:                                                       `-`,
		`[1, {"Ref": "AWS::NoValue"}]`:                                                  `[1]`,
		`{"Ref": "Other"}`:                                                              `"name-of-Other"`,
		`{"Ref": "Given"}`:                                                              `"given"`,
		`{"Ref": "Usual"}`:                                                              `7`,
		`{"Fn::GetAtt": ["Other", "Arn"]}`:                                              `"arn-of-Other"`,
		`{"Fn::GetAtt": "Other.Nested.Name"}`:                                           `"nested-of-Other"`,
		`{"Fn::GetAtt": ["Other", "Nested.Name"]}`:                                      `"nested-of-Other"`,
		`{"Fn::Join": ["", ["a", {"Ref": "Other"}, {"Ref": "Usual"}]]}`:                 `"aname-of-Other7"`,
		`{"Fn::Join": ["/", {"Fn::Split": [":", "a:b"]}]}`:                              `"a/b"`,
		`{"Fn::Sub": "a ${Other} ${Other.Arn} ${AWS::Region} ${!Literal}"}`:             `"a name-of-Other arn-of-Other eu-north-1 ${Literal}"`,
		`{"Fn::Sub": ["${own}-${Other}", {"own": {"Ref": "Usual"}}]}`:                   `"7-name-of-Other"`,
		`{"Fn::Select": [1, ["a", {"Ref": "Other"}]]}`:                                  `"name-of-Other"`,
		`{"Fn::Select": ["5", {"Fn::Split": ["-", "a-b-c-d-e-f"]}]}`:                    `"f"`,
		`{"Fn::ImportValue": "Base:Bucket"}`:                                            `"arn-of-Bucket"`,
		`{"Fn::Select": [0, {"Fn::Split": ["-", {"Fn::ImportValue": "Base:Bucket"}]}]}`: `"arn"`,
		`{"Fn::FindInMap": ["Sizes", {"Ref": "AWS::Region"}, "small"]}`:                 `3`,
		`{"Fn::Base64": "hi"}`:                                                          `"aGk="`,
		`{"Fn::If": ["Yes", "a", {"Ref": "Nobody"}]}`:                                   `"a"`,
		`{"Fn::If": ["No", "a", {"Ref": "AWS::NoValue"}]}`:                              `-`,
		`{"Fn::If": ["Both", 1, 2]}`:                                                    `2`,
		`{"Fn::If": ["Either", 1, 2]}`:                                                  `1`,
		`"{{resolve:secretsmanager:arn-of-Secret:SecretString:key::}}"`:                 `"s3cret"`,
		`{"Fn::Join": ["", ["<{{resolve:secretsmanager:", {"Fn::GetAtt": ["Secret", "Arn"]}, ":SecretString:key::}}>"]]}`: `"\u003cs3cret\u003e"`,
		`{"Statement": [{"Condition": {"Bool": {"a": {"Ref": "Other"}}}}]}`:                                               `{"Statement":[{"Condition":{"Bool":{"a":"name-of-Other"}}}]}`,
	} {
		got, err := resolved(t, value)
		if assert.NoError(t, err, value) {
			assert.Equal(t, want, got, value)
		}
	}
}

func TestWhatCannotBeResolvedSaysWhereAndWhy(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`{"Ref": "Nobody"}`:                         "the stack has no Nobody",
		`{"Ref": "Asked"}`:                          "the parameter Asked has no default and was not given",
		`{"Ref": 7}`:                                "Ref of 7",
		`{"Ref": "Absent"}`:                         "its condition does not hold",
		`{"Ref": "It"}`:                             "resources refer to each other: App/It (T), App/It (T)",
		`{"Fn::GetAtt": ["Other", "Size"]}`:         "App/Other (T) has no attribute Size",
		`{"Fn::GetAtt": ["Other"]}`:                 "Fn::GetAtt of",
		`{"Fn::Join": ["", {"Ref": "Other"}]}`:      "is no list",
		`{"Fn::Join": ["", [["a"]]]}`:               "is no text",
		`{"Fn::Join": "a"}`:                         "Fn::Join of a",
		`{"Fn::Sub": ["a"]}`:                        "Fn::Sub of",
		`{"Fn::Sub": "${Nobody.Arn}"}`:              "the stack has no Nobody",
		`{"Fn::Select": [2, ["a", "b"]]}`:           "element 2 of 2",
		`{"Fn::Select": ["x", ["a"]]}`:              "element x of 1",
		`{"Fn::ImportValue": "Base:Other"}`:         "no stack exports Base:Other",
		`{"Fn::FindInMap": ["Sizes", "mars", "a"]}`: "Fn::FindInMap finds no mars",
		`{"Fn::If": ["Maybe", 1, 2]}`:               "no condition Maybe",
		`{"Fn::If": ["Yes", 1]}`:                    "Fn::If of",
		`{"Fn::Cidr": ["10.0.0.0/8"]}`:              "Fn::Cidr is not known",
		`{"Fn::Transform": {"Name": "x"}}`:          "Fn::Transform is not known",
		`"{{resolve:ssm:/x}}"`:                      "{{resolve:ssm:/x}}: no such secret",
	} {
		_, err := resolved(t, value)
		if assert.Error(t, err, value) {
			assert.Contains(t, err.Error(), want, value)
			assert.Contains(t, err.Error(), "App/It", value)
		}
	}
}

func TestResourcesAreMadeAfterThoseTheyNeed(t *testing.T) {
	t.Parallel()
	a := load(t, map[string]string{
		"manifest.json": `{"artifacts": {
			"Service": {"type": "aws:cloudformation:stack", "properties": {"templateFile": "a.template.json", "stackName": "prod-service"}},
			"Data": {"type": "aws:cloudformation:stack", "properties": {"templateFile": "b.template.json"}},
			"Tree": {"type": "cdk:tree", "properties": {"file": "tree.json"}}
		}}`,
		"a.template.json": `{"Resources": {
			"A": {"Type": "T", "DependsOn": ["C"], "Properties": {"x": {"Ref": "B"}}},
			"B": {"Type": "T", "Properties": {"x": {"Fn::ImportValue": "Z"}}, "DependsOn": "Off"},
			"C": {"Type": "T"},
			"Off": {"Type": "T", "Condition": "Never"}
		}, "Conditions": {"Never": {"Fn::Equals": ["a", "b"]}}}`,
		"b.template.json": `{"Resources": {"Y": {"Type": "T"}, "Z": {"Type": "T"}}, "Outputs": {"Z": {"Value": {"Ref": "Z"}, "Export": {"Name": "Z"}}}}`,
		"c.template.json": `no stack of the manifest`,
	})
	for range 5 {
		made, err := a.Deploy(t.Context(), here, name)
		require.NoError(t, err)
		var order []string
		for _, m := range made {
			order = append(order, m.Stack.Name+"/"+m.ID)
		}
		assert.Equal(t, []string{"Data/Y", "Data/Z", "prod-service/C", "prod-service/B", "prod-service/A"}, order)
	}
	failing := func(_ context.Context, r *template.Resource, _ map[string]any) (template.Attributes, error) {
		return template.Attributes{}, fmt.Errorf("out of %s", r.ID)
	}
	_, err := a.Deploy(t.Context(), here, failing)
	require.EqualError(t, err, "Data/Y (T): out of Y")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = a.Deploy(ctx, here, name)
	require.ErrorIs(t, err, context.Canceled)
}

func TestLoadRefusesWhatIsNoAssembly(t *testing.T) {
	t.Parallel()
	for want, files := range map[string]map[string]string{
		"no file *.template.json":  {"x.json": "{}"},
		"it has no resources":      {"a.template.json": `{}`},
		"resource A has no type":   {"a.template.json": `{"Resources": {"A": {}}}`},
		"manifest.json names no":   {"manifest.json": `{}`, "a.template.json": `{}`},
		"manifest.json: invalid":   {"manifest.json": `x`},
		"a.template.json: invalid": {"a.template.json": `x`},
		"b.template.json: open":    {"manifest.json": `{"artifacts": {"A": {"type": "aws:cloudformation:stack", "properties": {"templateFile": "b.template.json"}}}}`},
	} {
		dir := fstest.MapFS{}
		for path, text := range files {
			dir[path] = &fstest.MapFile{Data: []byte(text)}
		}
		_, err := template.Load(dir)
		if assert.Error(t, err, want) {
			assert.Contains(t, err.Error(), want)
		}
	}
}

func TestPhysicalNames(t *testing.T) {
	t.Parallel()
	a := load(t, map[string]string{"Data.template.json": `{"Resources": {
		"Table1A2B3C4D": {"Type": "T"}, "Queue": {"Type": "T"}, "RunsQueueDEADBEEF": {"Type": "T"}, "ABCDEF01": {"Type": "T"}}}`})
	var names []string
	for _, id := range []string{"Table1A2B3C4D", "Queue", "RunsQueueDEADBEEF", "ABCDEF01"} {
		names = append(names, a.Stacks[0].Resources[id].PhysicalName())
	}
	assert.Equal(t, "data-table data-queue data-runsqueue data-abcdef01", strings.Join(names, " "))
}
