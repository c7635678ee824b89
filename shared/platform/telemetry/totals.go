package telemetry

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// TotalsType is the content type of WriteTotals' output.
const TotalsType = "text/plain; version=0.0.4; charset=utf-8"

// WriteTotals writes everything measured since the start in Prometheus' text
// format: counters, and for times the sum in seconds and the count. Errors are
// the writer's.
func (m *Metrics) WriteTotals(w io.Writer) error {
	if m == nil {
		return nil
	}
	var out bytes.Buffer
	m.mu.Lock()
	keys := slices.SortedFunc(maps.Keys(m.series), func(a, b series) int {
		return cmp.Or(cmp.Compare(a.metric, b.metric), a.dimensions.compare(b.dimensions))
	})
	for i, key := range keys {
		what, s := described[key.metric], m.series[key]
		name, kind := "millrace_"+what.total, "counter"
		if what.each {
			kind = "summary"
		}
		if i == 0 || keys[i-1].metric != key.metric {
			fmt.Fprintf(&out, "# TYPE %s %s\n", name, kind)
		}
		labels := labels(key.dimensions)
		if !what.each {
			fmt.Fprintf(&out, "%s%s %s\n", name, labels, number(s.sum))
			continue
		}
		fmt.Fprintf(&out, "%s_sum%s %s\n%s_count%s %d\n", name, labels, number(s.sum/1000), name, labels, s.count)
	}
	m.mu.Unlock()
	_, err := w.Write(out.Bytes())
	return err
}

func labels(d Dimensions) string {
	var list []string
	for _, p := range d.pairs() {
		list = append(list, strings.ToLower(p[0])+"="+strconv.Quote(p[1]))
	}
	if len(list) == 0 {
		return ""
	}
	return "{" + strings.Join(list, ",") + "}"
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
