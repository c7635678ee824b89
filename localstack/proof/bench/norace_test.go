//go:build !race

package bench_test

import "millrace/localstack/proof/bench"

// widest is the width of the widest counted run.
const widest = bench.Widest
