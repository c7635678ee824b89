package bench

import (
	"fmt"
	"strings"

	"millrace/functions/runs"
	"millrace/functions/taskworker"
)

// line is one line of a bill for a million tasks.
type line struct {
	what   string
	price  float64 // dollars per million
	amount float64 // per task
}

// dollars returns the cost of the line per million tasks.
func (l line) dollars() float64 { return l.price * l.amount }

// bill returns the cost of a million trivial tasks, executed as runs of this
// kind that are each accepted over the API.
func bill(accept, run Count) []line {
	tasks := float64(run.Tasks)
	total := func(of func(Count) float64) float64 { return (of(accept) + of(run)) / tasks }
	waits := func(c Count) float64 { return float64(c.Calls+c.Sends+c.Puts+c.Gets+c.Events) * requestTime.Seconds() }
	gb := func(mb int) float64 { return float64(mb) / 1024 }
	return []line{
		{"DynamoDB write units", priceWriteUnit, total(func(c Count) float64 { return c.Write })},
		{"DynamoDB read units", priceReadUnit, total(func(c Count) float64 { return c.Read })},
		{"SQS requests", priceQueue, total(func(c Count) float64 { return float64(c.Requests) })},
		{"Lambda GB-seconds", priceGBSecond, (waits(accept)*gb(runs.Spec.MemoryMB) + waits(run)*gb(taskworker.Spec.MemoryMB)) / tasks},
		{"Lambda invocations", priceInvocation, (1 + float64(run.Batches)) / tasks},
		{"API Gateway requests", priceAPI, 1 / tasks},
		{"EventBridge events", priceEvent, total(func(c Count) float64 { return float64(c.Events) })},
		{"S3 writes", pricePut, total(func(c Count) float64 { return float64(c.Puts) })},
		{"S3 reads", priceGet, total(func(c Count) float64 { return float64(c.Gets) })},
	}
}

// sum returns the total of a bill in dollars.
func sum(lines []line) float64 {
	total := 0.0
	for _, l := range lines {
		total += l.dollars()
	}
	return total
}

// The two flows of the README's bill.
const (
	billedChain = 40
	billedFan   = 1000
)

// dollars returns the cost of a million tasks of a work.
func dollars(counts []Count, work string) (float64, []line, error) {
	accept, found := find(counts, acceptWork)
	if !found {
		return 0, nil, fmt.Errorf("no counts of %q", acceptWork)
	}
	run, found := find(counts, work)
	if !found {
		return 0, nil, fmt.Errorf("no counts of %q", work)
	}
	lines := bill(accept, run)
	return sum(lines), lines, nil
}

// Markdown returns the README's bill, computed from counts.
func Markdown(counts []Count) (string, error) {
	inSequence, left, err := dollars(counts, chainWork(billedChain))
	if err != nil {
		return "", err
	}
	fannedOut, right, err := dollars(counts, fanWork(billedFan))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| | $ per million | %d in sequence: per task | $ per million tasks | fan-out and join of %d: per task | $ per million tasks |\n", billedChain, billedFan)
	b.WriteString("| --- | ---: | ---: | ---: | ---: | ---: |\n")
	for i, l := range left {
		r := right[i]
		fmt.Fprintf(&b, "| %s | %s | %.4f | %.2f | %.4f | %.2f |\n", l.what, price(l.price), l.amount, l.dollars(), r.amount, r.dollars())
	}
	fmt.Fprintf(&b, "| **Millrace** | | | **%.2f** | | **%.2f** |\n", inSequence, fannedOut)
	fmt.Fprintf(&b, "| Step Functions Standard, state transitions | %s | 1 | %.2f | 1 | %.2f |\n", price(priceTransition), priceTransition, priceTransition)
	fmt.Fprintf(&b, "\nList prices of %s in %s, without free tiers. "+
		"A unit is 1 KB written or 4 KB read; accepting the run is included. "+
		"Lambda is taken to wait %v for every request, one after the other, in functions of %d MB.\n",
		pricesOf, pricesIn, requestTime, taskworker.Spec.MemoryMB)
	err = pythonMarkdown(&b, counts)
	return b.String(), err
}

// pythonBill returns the cost of a million silent Python tasks of a second,
// executed as runs of this kind, without the time of their sandboxes.
func pythonBill(accept, run Count) []line {
	tasks := float64(run.Tasks)
	lines := bill(accept, run)
	for i := range lines {
		switch l := &lines[i]; l.what {
		case "Lambda GB-seconds": // sandboxes are invoked by requests, too
			l.amount += float64(run.Sandboxes) * requestTime.Seconds() * float64(taskworker.Spec.MemoryMB) / 1024 / tasks
		case "Lambda invocations":
			l.amount += float64(run.Posts) / tasks
		}
	}
	return append(lines,
		line{"Firewall requests", priceFirewall, 1 / tasks},
		line{"Lambda invocations, sandboxes", priceInvocation, float64(run.Sandboxes) / tasks},
		line{"CloudWatch logs, KB", priceLogKB, (float64(run.LogKB) + float64(run.Batches)*batchLogKB + acceptLogKB) / tasks},
	)
}

// What is logged besides the functions' own lines: by Lambda two lines for each
// invocation, not for those by requests of sandboxes. Accepting a run adds the
// lines of gateway and function, and metrics.
const (
	batchLogKB  = 0.7
	acceptLogKB = 2.5
)

// pythonDollars returns the cost of a million Python tasks of a work.
func pythonDollars(counts []Count, work string) (float64, []line, error) {
	accept, found := find(counts, acceptWork)
	if !found {
		return 0, nil, fmt.Errorf("no counts of %q", acceptWork)
	}
	run, found := find(counts, pythonWork(work))
	if !found {
		return 0, nil, fmt.Errorf("no counts of %q", pythonWork(work))
	}
	lines := pythonBill(accept, run)
	return sum(lines), lines, nil
}

// pythonMarkdown writes the README's bill of Python tasks.
func pythonMarkdown(b *strings.Builder, counts []Count) error {
	inSequence, left, err := pythonDollars(counts, chainWork(billedChain))
	if err != nil {
		return err
	}
	fannedOut, right, err := pythonDollars(counts, fanWork(billedFan))
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\nOf silent Python tasks of a second, with all requests, invocations and log lines, without the time of their sandboxes:\n\n"+
		"| | $ per million | %d in sequence: per task | $ per million tasks | fan-out and join of %d: per task | $ per million tasks |\n", billedChain, billedFan)
	b.WriteString("| --- | ---: | ---: | ---: | ---: | ---: |\n")
	for i, l := range left {
		r := right[i]
		fmt.Fprintf(b, "| %s | %s | %.4f | %.2f | %.4f | %.2f |\n", l.what, price(l.price), l.amount, l.dollars(), r.amount, r.dollars())
	}
	fmt.Fprintf(b, "| **Python tasks** | | | **%.2f** | | **%.2f** |\n", inSequence, fannedOut)
	return nil
}

// price formats a price without superfluous zeros, but with cents.
func price(v float64) string {
	s := fmt.Sprintf("%.4f", v)
	for strings.HasSuffix(s, "0") && len(s)-strings.IndexByte(s, '.') > 3 {
		s = strings.TrimSuffix(s, "0")
	}
	return s
}
