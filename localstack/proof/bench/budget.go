package bench

import "fmt"

// Budgets of counts.
const (
	acceptWrites = 16.0 // write units, including audit, indexes and idempotency key
	chainWrites  = 3.0  // write units a task
	chainReads   = 1.0  // read units a task
	wideWrites   = 6.0  // write units a task
	wideRequests = 3.0  // queue requests a task
	chainDollars = 2.60 // dollars per million tasks
	pythonChain  = 6.0  // dollars per million Python tasks, without the time of their sandboxes
	pythonFan    = 8.0
	linearSlack  = 1.05 // largest ratio of the cost of a task in the widest run to that in the narrowest
)

const (
	writesEach = "write units a task"
	readsEach  = "read units a task"
)

// Budget is a count with its upper limit.
type Budget struct {
	Work      string // as in [Count]
	What      string
	Got, Most float64
}

// Met reports whether the count is within its budget.
func (b Budget) Met() bool { return b.Got <= b.Most }

// CountBudgets compares counts with their budgets. The cost of a task in a
// chain is that of one more task; the run's own cost is not included. It fails
// if a count is missing.
func CountBudgets(counts []Count) ([]Budget, error) {
	var missing error
	of := func(work string) Count {
		c, found := find(counts, work)
		if !found {
			missing = fmt.Errorf("no counts of %q", work)
		}
		return c
	}
	accept, short, long := of(acceptKeyWork), of(chainWork(chains[0])), of(chainWork(chains[1]))
	more := float64(long.Tasks - short.Tasks)
	out := []Budget{
		{acceptKeyWork, "write units", accept.Write, acceptWrites},
		{acceptKeyWork, "messages", float64(accept.Messages), 1},
		{long.Work, writesEach, (long.Write - short.Write) / more, chainWrites},
		{long.Work, readsEach, (long.Read - short.Read) / more, chainReads},
		{short.Work, "messages a run", float64(1 + short.Messages), 1},
	}
	for _, name := range []func(int) string{fanWork, mapWork} {
		narrow := perTask(of(name(widths[0])))
		for _, n := range widths {
			c := of(name(n))
			each := perTask(c)
			out = append(out,
				Budget{c.Work, writesEach, each.Write, wideWrites},
				Budget{c.Work, "queue requests a task", float64(c.Requests) / float64(c.Tasks), wideRequests},
				// A queue with little traffic delivers messages one by one.
				Budget{c.Work, "queue requests a task, one by one", float64(c.Sends+1+2*(c.Messages+1)) / float64(c.Tasks), wideRequests},
				Budget{c.Work, "write units a task, against the least wide", each.Write / narrow.Write, linearSlack},
			)
		}
	}
	cost, _, err := dollars(counts, chainWork(billedChain))
	if err != nil {
		return nil, err
	}
	out = append(out, Budget{chainWork(billedChain), "dollars per million tasks", cost, chainDollars})
	for _, w := range []struct {
		work string
		most float64
	}{{chainWork(billedChain), pythonChain}, {fanWork(billedFan), pythonFan}} {
		cost, _, err := pythonDollars(counts, w.work)
		if err != nil {
			return nil, err
		}
		out = append(out, Budget{pythonWork(w.work), "dollars per million tasks", cost, w.most})
	}
	return out, missing
}

func perTask(c Count) Count {
	n := float64(c.Tasks)
	return Count{Work: c.Work, Write: c.Write / n, Read: c.Read / n}
}
