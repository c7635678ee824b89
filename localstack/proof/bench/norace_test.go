//go:build !race

package bench_test

import "millrace/localstack/proof/bench"

// widest is how wide the runs are that are counted.
const widest = bench.Widest
