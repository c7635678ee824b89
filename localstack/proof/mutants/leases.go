package main

// leases are the guards of claims and heartbeats: two live leases on one task
// never exist, and a task runs once for each attempt.
func leases() []Guard {
	linear := conductor("TestLeasesAreLinear")
	return []Guard{
		{
			Name: "claim/lease", Holds: "a claim takes no attempt that somebody has",
			In:     conductorDir,
			Text:   `table.And(table.Eq(runstate.NodeStatus, string(engine.Running)), table.Absent(runstate.NodeNonce), due),`,
			Broken: `table.Eq(runstate.NodeStatus, string(engine.Running)),`,
			Tests:  linear,
		},
		{
			Name: "claim/finished", Holds: "a claim takes no task that is finished",
			In: conductorDir,
			Text: `		If: table.Or(
			table.Absent(runstate.NodeStatus),`,
			Broken: `		If: table.Or(
			table.Or(table.Absent(runstate.NodeStatus), table.Eq(runstate.NodeStatus, string(engine.Succeeded))),`,
			Tests: linear,
		},
		{
			Name: "claim/due", Holds: "a claim takes no attempt before its time",
			In:     conductorDir,
			Text:   `due := table.And(table.Eq(runstate.NodeAttempt, r.attempt), table.Le(runstate.NodeDue, int64(millis(now))))`,
			Broken: `due := table.Eq(runstate.NodeAttempt, r.attempt)`,
			Tests:  linear,
		},
		{
			Name: "claim/attempt", Holds: "a message of an earlier attempt claims no later one",
			In:     conductorDir,
			Text:   `due := table.And(table.Eq(runstate.NodeAttempt, r.attempt), table.Le(runstate.NodeDue, int64(millis(now))))`,
			Broken: `due := table.Le(runstate.NodeDue, int64(millis(now)))`,
			Tests:  conductor("TestSimulatedFaults"),
		},
		{
			Name: "claim/lost answer", Holds: "a claim that was written and sent again is a claim",
			In:     conductorDir,
			Text:   `if old.Nonce == nonce { // the claim`,
			Broken: `if nonce == "" { // the claim`,
			Tests:  conductor("TestEveryWriteMayBeSentAgain"),
		},
		{
			Name: "claim/too early", Holds: "a message that comes before its time is sent again",
			In:     conductorDir,
			Text:   `return nil, old, s.send(ctx, []ready{{r.node, old.Attempt}}, wait)`,
			Broken: `return nil, old, nil`,
			Tests:  conductor("TestWaitHoldsNoWorker"),
		},
		{
			Name: "claim/busy", Holds: "a message that meets a live lease comes back when that is over",
			In:     conductorDir,
			Text:   `s.busy = max(old.LeaseUntil.Time().Sub(now)+time.Second, time.Second)`,
			Broken: `s.busy = 0`,
			Tests:  conductor("TestAMessageWaitsForTheLease"),
		},
		{
			Name: "lease/ends", Holds: "a lease that is not renewed ends",
			In:     conductorDir,
			Text:   `return n.LeaseUntil.Time().After(now)`,
			Broken: `return true`,
			Tests:  linear,
		},
		{
			Name: "lease/lives", Holds: "a lease that has not ended is heeded",
			In:     conductorDir,
			Text:   `return n.LeaseUntil.Time().After(now)`,
			Broken: `return false`,
			Tests:  linear,
		},
		{
			Name: "lease/of others", Holds: "one of several processes does not void the others' leases",
			In:     conductorDir,
			Text:   `(s.Sole && !strings.HasPrefix(n.Nonce, s.Boot+"."))`,
			Broken: `!strings.HasPrefix(n.Nonce, s.Boot+".")`,
			Tests:  linear,
		},
		{
			Name: "lease/of an earlier process", Holds: "a process that is alone takes over at once what an earlier one left",
			In:     conductorDir,
			Text:   `(s.Sole && !strings.HasPrefix(n.Nonce, s.Boot+"."))`,
			Broken: `(s.Sole && strings.HasPrefix(n.Nonce, "never"))`,
			Tests:  conductor("TestLeasesOfAnEarlierProcess"),
		},
		{
			Name: "take over/renewed", Holds: "a lease that was renewed meanwhile is not taken over",
			In: conductorDir,
			Text: `		If: table.And(table.Eq(runstate.NodeStatus, string(engine.Running)), table.Eq(runstate.NodeNonce, old.Nonce),
			table.Eq(runstate.NodeLease, int64(old.LeaseUntil))),`,
			Broken: `		If: table.And(table.Eq(runstate.NodeStatus, string(engine.Running)), table.Eq(runstate.NodeNonce, old.Nonce)),`,
			Tests:  linear,
		},
		{
			Name: "take over/nonce", Holds: "of two who take over a lease one gets it",
			In:     conductorDir,
			Text:   `If: table.And(table.Eq(runstate.NodeStatus, string(engine.Running)), table.Eq(runstate.NodeNonce, old.Nonce),`,
			Broken: `If: table.And(table.Eq(runstate.NodeStatus, string(engine.Running)),`,
			Tests:  conductor("TestOneTakesOver"),
		},
		{
			Name: "take over/lost answer", Holds: "a take-over that was written and sent again is one",
			In:     conductorDir,
			Text:   `if now.Nonce == nonce {`,
			Broken: `if nonce == "" {`,
			Tests:  conductor("TestOneTakesOver"),
		},
		{
			Name: "take over/attempt", Holds: "what follows a lost lease is a new attempt",
			In:     conductorDir,
			Text:   `table.Set(runstate.NodeAttempt, old.Attempt+1),`,
			Broken: `table.Set(runstate.NodeAttempt, old.Attempt),`,
			Tests:  conductor("TestSimulatedCrashes"),
		},
		{
			Name: "take over/count", Holds: "lost leases are counted",
			In:     conductorDir,
			Text:   `table.Set(runstate.NodeLost, old.Lost+1),`,
			Broken: `table.Set(runstate.NodeLost, old.Lost),`,
			Tests:  conductor("TestLostLeasesEndTheTask"),
		},
		{
			Name: "take over/tenth", Holds: "the tenth lost lease ends the task",
			In:     conductorDir,
			Text:   `ends := old.Lost+1 >= MaxLost`,
			Broken: `ends := old.Lost+1 > MaxLost`,
			Tests:  conductor("TestLostLeasesEndTheTask"),
		},
		{
			Name: "heartbeat/nonce", Holds: "a heartbeat renews its own lease only",
			In:     conductorDir,
			Text:   `table.And(table.Eq(runstate.NodeNonce, nonce), table.Eq(runstate.NodeStatus, string(engine.Running))),`,
			Broken: `table.Eq(runstate.NodeStatus, string(engine.Running)),`,
			Tests:  linear,
		},
		{
			Name: "heartbeat/finished", Holds: "a heartbeat renews no lease of a finished task",
			In:     conductorDir,
			Text:   `table.And(table.Eq(runstate.NodeNonce, nonce), table.Eq(runstate.NodeStatus, string(engine.Running))),`,
			Broken: `table.Eq(runstate.NodeNonce, nonce),`,
			Tests:  linear,
		},
		{
			Name: "heartbeat/fence", Holds: "a heartbeat sees that the run was stopped",
			In:   conductorDir,
			Text: `	return run.Fenced(s.Clock.Now()), nil`,
			Broken: `	_ = run
	return "", nil`,
			Tests: conductor("TestCancelStopsARunningTask"),
		},
		{
			Name: "heartbeat/consistent", Holds: "a heartbeat does not read an old state of the run",
			In: conductorDir,
			Text: `runstate.RunKey(s.org, s.id), table.Consistent)
	if err != nil {
		return "", err`,
			Broken: `runstate.RunKey(s.org, s.id))
	if err != nil {
		return "", err`,
			Tests: conductor("TestReadsAreConsistent"),
		},
		{
			Name: "heartbeat/woken", Holds: "within a process a running task sees a cancel at once",
			In:     conductorDir,
			Text:   `s.Hub.Wait(runstate.FenceSignal(s.id))`,
			Broken: `s.Hub.Wait(runstate.FenceSignal("nobody"))`,
			Tests:  conductor("TestCancelStopsARunningTask"),
		},
		{
			Name: "heartbeat/fails", Holds: "an attempt whose heartbeats fail stops before its lease is over",
			In:     conductorDir,
			Text:   `case err != nil && s.Clock.Now().Sub(renewed) < Lease-Heartbeat:`,
			Broken: `case err != nil && s.Clock.Now().Sub(renewed) < 1000*Lease:`,
			Tests:  conductor("TestAnAttemptDoesNotOutliveItsLease"),
		},
		{
			Name: "begin/lease", Holds: "a worker that stood still since its claim does not begin",
			In:     conductorDir,
			Text:   `if w.item.LeaseUntil.Time().Sub(now) > Lease/2 {`,
			Broken: `if w.item != nil {`,
			Tests:  conductor("TestAWorkerThatStoodStill"),
		},
		{
			Name: "begin/stopped", Holds: "a worker that stood still does not begin in a run that was stopped meanwhile",
			In: conductorDir,
			Text: `		case why != "":
			return false, s.release(ctx, w.node, w.item, why)
		}`,
			Broken: `		}`,
			Tests:  conductor("TestAWorkerThatStoodStill"),
		},
	}
}
