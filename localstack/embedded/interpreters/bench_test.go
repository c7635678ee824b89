//go:build unix

package interpreters_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"millrace/shared/run/sandbox"
)

// BenchmarkWarmCall measures the overhead of an empty task.
func BenchmarkWarmCall(b *testing.B) {
	r := newRig(b)
	req := r.request(b, "def f(day): return 1\n", "f")
	req.Params = map[string]json.RawMessage{"day": raw(`"monday"`)}
	r.run(b, req)
	for b.Loop() {
		if _, err := r.Run(b.Context(), req, func(sandbox.LogEvent) {}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkColdCall measures the first task of an artifact that is already on
// disk.
func BenchmarkColdCall(b *testing.B) {
	r := newRig(b)
	req := r.request(b, "def f(): return 1\n", "f")
	r.run(b, req)
	n := 0
	for b.Loop() {
		n++
		req.Tier = fmt.Sprint(n) // no warm interpreter matches
		if _, err := r.Run(b.Context(), req, func(sandbox.LogEvent) {}); err != nil {
			b.Fatal(err)
		}
	}
}
