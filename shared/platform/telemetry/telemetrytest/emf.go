package telemetrytest

import (
	"bytes"
	_ "embed" // the schema
	"slices"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// format is CloudWatch's embedded metric format, by its specification.
//
//go:embed emf.schema.json
var format []byte

// Metric is one metric of a line in the embedded metric format.
type Metric struct {
	Name, Unit string
	Dimensions map[string]string
	Values     []float64
}

// Metrics parses those of lines that are in the embedded metric format. It ends
// the test if one violates the format.
func Metrics(t testing.TB, lines []Line) []Metric {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(format))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("emf.schema.json", doc))
	schema, err := c.Compile("emf.schema.json")
	require.NoError(t, err)
	var out []Metric
	for _, line := range lines {
		if _, ok := line["_aws"]; !ok {
			continue
		}
		require.NoError(t, schema.Validate(map[string]any(line)), "%v", line)
		for _, d := range line["_aws"].(map[string]any)["CloudWatchMetrics"].([]any) {
			out = append(out, directive(t, line, d.(map[string]any))...)
		}
	}
	return out
}

// directive reads the metrics of one directive. It checks what the schema
// cannot express: that the members exist and have the right type.
func directive(t testing.TB, line Line, d map[string]any) []Metric {
	t.Helper()
	dimensions := map[string]string{}
	for _, set := range d["Dimensions"].([]any) {
		for _, name := range set.([]any) {
			value, ok := line[name.(string)].(string)
			require.True(t, ok && value != "" && len(value) <= 1024, "dimension %s of %v", name, line)
			dimensions[name.(string)] = value
		}
	}
	var out []Metric
	for _, m := range d["Metrics"].([]any) {
		what := m.(map[string]any)
		got := Metric{Name: what["Name"].(string), Unit: what["Unit"].(string), Dimensions: dimensions}
		switch v := line[got.Name].(type) {
		case float64:
			got.Values = []float64{v}
		case []any:
			require.True(t, len(v) > 0 && len(v) <= 100, "%d values of %s", len(v), got.Name)
			for _, one := range v {
				require.IsType(t, 0.0, one)
				got.Values = append(got.Values, one.(float64))
			}
		default:
			require.Fail(t, "no value", "%s in %v", got.Name, line)
		}
		out = append(out, got)
	}
	return out
}

// Sum adds up the values of a metric over all lines with these dimensions,
// given as alternating names and values.
func Sum(metrics []Metric, name string, dimensions ...string) float64 {
	sum := 0.0
	for _, m := range metrics {
		fits := m.Name == name
		for pair := range slices.Chunk(dimensions, 2) {
			fits = fits && m.Dimensions[pair[0]] == pair[1]
		}
		for _, v := range m.Values {
			if fits {
				sum += v
			}
		}
	}
	return sum
}
