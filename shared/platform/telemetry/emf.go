package telemetry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// maxValues is the most values of a metric on one line of the format.
const maxValues = 100

// Flush writes the measurements since the last flush and discards them: one
// line for each combination of dimensions, all in one write. subject is on
// every line, to lead from a metric to its logs. Errors are the writer's; the
// measurements are then lost.
func (m *Metrics) Flush(at time.Time, subject Subject) error {
	if m == nil || m.out == nil {
		return nil
	}
	m.mu.Lock()
	taken := m.series
	m.series = make(map[series]*sample, len(taken))
	m.mu.Unlock()
	if len(taken) == 0 {
		return nil
	}
	groups := map[Dimensions][]Metric{}
	for key := range taken {
		groups[key.dimensions] = append(groups[key.dimensions], key.metric)
	}
	var out bytes.Buffer
	for _, d := range slices.SortedFunc(maps.Keys(groups), Dimensions.compare) {
		list := groups[d]
		slices.Sort(list)
		for first := 0; len(list) > 0; first += maxValues {
			if err := m.line(&out, at, d, list, first, taken, &subject); err != nil {
				return err
			}
			list = slices.DeleteFunc(list, func(metric Metric) bool {
				return len(taken[series{d, metric}].values) <= first+maxValues
			})
		}
	}
	_, err := m.out.Write(out.Bytes())
	return err
}

// The members of a line that the format defines.
type (
	metadata struct {
		Timestamp         int64       // Unix milliseconds
		CloudWatchMetrics []directive // one
	}
	directive struct {
		Namespace  string
		Dimensions [][]string
		Metrics    []definition
	}
	definition struct{ Name, Unit string }
)

// line writes the metrics of one combination of dimensions. For metrics with
// single values it writes as many as fit, beginning with first.
func (m *Metrics) line(out *bytes.Buffer, at time.Time, d Dimensions, list []Metric, first int, taken map[series]*sample, subject *Subject) error {
	names := []string{}
	members := map[string]any{}
	for _, a := range subject.attrs() {
		members[a.Key] = a.Value.Any()
	}
	for _, pair := range d.pairs() {
		names = append(names, pair[0])
		members[pair[0]] = pair[1]
	}
	about := directive{Namespace: m.namespace, Dimensions: [][]string{names}}
	for _, metric := range list {
		what, s := described[metric], taken[series{d, metric}]
		about.Metrics = append(about.Metrics, definition{what.name, what.unit})
		members[what.name] = s.sum
		if what.each {
			members[what.name] = s.values[first:min(first+maxValues, len(s.values))]
		}
	}
	members["_aws"] = metadata{Timestamp: at.UnixMilli(), CloudWatchMetrics: []directive{about}}
	if err := json.NewEncoder(out).Encode(members); err != nil {
		return fmt.Errorf("telemetry: %w", err)
	}
	return nil
}
