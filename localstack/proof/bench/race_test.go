//go:build race

package bench_test

// widest is how wide the runs are that are counted: under the race detector the
// widest take minutes, and show nothing that others do not.
const widest = 1000
