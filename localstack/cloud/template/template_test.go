package template_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/cloud/template"
)

var here = template.Environment{Region: "eu-north-1", AccountID: "000000000000"}

func load(files map[string]string) (*template.Assembly, error) {
	dir := fstest.MapFS{}
	for path, text := range files {
		dir[path] = &fstest.MapFile{Data: []byte(text)}
	}
	return template.Load(dir)
}

// deploy creates resources whose names and ARNs tell where they come from. It
// returns them in order, and their properties as JSON.
func deploy(t *testing.T, files map[string]string) (order []string, properties map[string]string, err error) {
	t.Helper()
	a, err := load(files)
	require.NoError(t, err)
	properties = map[string]string{}
	err = a.Deploy(here, func(r *template.Resource, p map[string]any) (template.Attributes, error) {
		if r.Type == "Broken" {
			return template.Attributes{}, fmt.Errorf("out of order")
		}
		data, err := json.Marshal(p)
		require.NoError(t, err)
		order = append(order, r.String())
		properties[r.String()] = string(data)
		return template.Attributes{
			Ref: "name of " + r.String(), ARN: "ARN of " + r.String(), Version: "version of " + r.String(), URL: "https://" + r.Type + "/",
		}, nil
	})
	return order, properties, err
}

// resolved returns the resolved property V of a resource.
func resolved(t *testing.T, value string) (string, error) {
	t.Helper()
	_, properties, err := deploy(t, map[string]string{
		"App.template.json": `{"Resources": {"Other": {"Type": "T"}, "It": {"Type": "T", "Properties": {"V": ` + value + `}}}}`,
		"Base.template.json": `{"Resources": {"Bucket": {"Type": "T"}}, "Outputs": {
			"Plain": {"Value": "not exported"},
			"Out": {"Value": {"Fn::GetAtt": ["Bucket", "Arn"]}, "Export": {"Name": "base-bucket"}}
		}}`,
	})
	return properties["App/It (T)"], err
}

func TestFunctionsAreEvaluated(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`"plain"`: `"plain"`, `12345678901234567890`: `12345678901234567890`, `null`: `null`, `[true, {"a": 1}]`: `[true,{"a":1}]`,
		`{"Ref": "AWS::AccountId"}`:            `"000000000000"`,
		`{"Ref": "Other"}`:                     `"name of App/Other (T)"`,
		`{"Fn::GetAtt": ["Other", "Arn"]}`:     `"ARN of App/Other (T)"`,
		`{"Fn::GetAtt": ["Other", "Version"]}`: `"version of App/Other (T)"`,
		`{"Fn::Sub": "${AWS::Partition}:${AWS::Region}.${AWS::URLSuffix}/${Other}"}`: `"aws:eu-north-1.amazonaws.com/name of App/Other (T)"`,
		`{"Fn::Sub": "${Other.FunctionUrl}a ${Other.Arn}"}`:                          `"https://T/a ARN of App/Other (T)"`,
		`{"Fn::ImportValue": "base-bucket"}`:                                         `"ARN of Base/Bucket (T)"`,
		`[{"Condition": {"Bool": {"a": {"Ref": "Other"}}}}]`:                         `[{"Condition":{"Bool":{"a":"name of App/Other (T)"}}}]`,
	} {
		got, err := resolved(t, value)
		if assert.NoError(t, err, value) {
			assert.Equal(t, `{"V":`+want+`}`, got, value)
		}
	}
}

func TestUnresolvedReferenceIsReported(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`{"Ref": "Nobody"}`:                    "the stack has no Nobody",
		`{"Ref": "It"}`:                        "resources refer to each other: App/It (T)",
		`{"Fn::Sub": "${Nobody} ${It}"}`:       "the stack has no Nobody",
		`{"Fn::ImportValue": "base-table"}`:    "no stack exports base-table",
		`{"Ref": 7}`:                           "Ref of 7 is not known here",
		`{"Fn::GetAtt": ["Other", "Size"]}`:    "Fn::GetAtt of [Other Size] is not known here",
		`{"Fn::Sub": "${Other.Size}"}`:         "Fn::GetAtt of [Other Size] is not known here",
		`{"Fn::Sub": ["${a}", {"a": "b"}]}`:    "Fn::Sub of [${a} map[a:b]] is not known here",
		`{"Fn::Join": ["", ["a", "b"]]}`:       "Fn::Join of [ [a b]] is not known here",
		`[{"a": {"Fn::If": ["Yes", 1, 2]}}]`:   "Fn::If of [Yes 1 2] is not known here",
		`{"Fn::ImportValue": {"Ref": "Name"}}`: "Fn::ImportValue of map[Ref:Name] is not known here",
	} {
		_, err := resolved(t, value)
		assert.EqualError(t, err, "template: App/It (T): "+want)
	}
}

func TestResourcesAreCreatedAfterDependencies(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"a.template.json": `{"Resources": {
			"A": {"Type": "T", "DependsOn": ["D"], "Properties": {"y": {"Ref": "C"}, "x": {"Ref": "B"}}},
			"B": {"Type": "T", "Properties": {"x": {"Fn::ImportValue": "Z"}}},
			"C": {"Type": "T"}, "D": {"Type": "T"}
		}}`,
		"b.template.json": `{"Resources": {"Y": {"Type": "T"}, "Z": {"Type": "T"}}, "Outputs": {"Z": {"Value": {"Ref": "Z"}, "Export": {"Name": "Z"}}}}`,
		"manifest.json":   `no template`,

		"app-recovery.template.json": `{"Parameters": {}}`,
	}
	for range 5 {
		order, _, err := deploy(t, files)
		require.NoError(t, err)
		assert.Equal(t, []string{"a/D (T)", "b/Z (T)", "a/B (T)", "a/C (T)", "a/A (T)", "b/Y (T)"}, order)
	}
	_, _, err := deploy(t, map[string]string{"a.template.json": `{"Resources": {
		"A": {"Type": "T", "DependsOn": ["B"]}, "B": {"Type": "T", "Properties": {"x": [{"Ref": "C"}]}}, "C": {"Type": "Broken"}}}`})
	assert.EqualError(t, err, "template: a/A (T): a/B (T): a/C (Broken): out of order")
}

func TestLoadRejectsUnsupportedTemplates(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`x`:                        "invalid character",
		`{}`:                       "it has no resources",
		`{"Resources": {"A": {}}}`: "resource A has no type",
		`{"Resources": {"A": {"Type": "T"}}, "Parameters": {}}`:                       `unknown field "Parameters"`,
		`{"Resources": {"A": {"Type": "T", "Condition": "Never"}}}`:                   `unknown field "Condition"`,
		`{"Resources": {"A": {"Type": "T", "Properties": {"x": "{{resolve:ssm}}"}}}}`: "dynamic references",
	} {
		_, err := load(map[string]string{"a.template.json": text})
		assert.ErrorContains(t, err, "template a.template.json: ", text)
		assert.ErrorContains(t, err, want, text)
	}
	_, err := load(map[string]string{"manifest.json": `{}`})
	assert.EqualError(t, err, "no file *.template.json")
}
