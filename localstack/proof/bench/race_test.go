//go:build race

package bench_test

// widest is the width of the widest counted run. Under the race detector, the
// widest take minutes and show nothing new.
const widest = 1000
