package main

// attempts are the guards of what a worker does with an attempt: it begins none
// in a run that was stopped, writes the result of none that it lost, counts each
// once, and leaves nothing undone before its message is deleted.
func attempts() []Guard {
	return []Guard{
		{
			Name: "fence/read", Holds: "no task begins in a run that was stopped",
			In:     conductorDir,
			Text:   `if why := s.run.Fenced(s.Clock.Now()); why != "" {`,
			Broken: `if why := s.run.Fenced(s.Clock.Now()); why == "never" {`,
			Tests:  conductor("TestSimulatedCancels"),
		},
		{
			Name: "fence/anew", Holds: "the fence is read after the claim",
			In: conductorDir,
			Text: `	if err := s.load(ctx); err != nil {
		return nil, err
	}
	if why := s.run.Fenced(`,
			Broken: `	if s.run == nil {
		if err := s.load(ctx); err != nil {
			return nil, err
		}
	}
	if why := s.run.Fenced(`,
			Tests: conductor("TestAWorkerThatGoesOnSeesTheFence"),
		},
		{
			Name: "fence/consistent", Holds: "the fence that is read is no old one",
			In: conductorDir,
			Text: `runstate.RunKey(s.org, s.id), table.Consistent)
	if err != nil {
		return fmt`,
			Broken: `runstate.RunKey(s.org, s.id))
	if err != nil {
		return fmt`,
			Tests: conductor("TestReadsAreConsistent"),
		},
		{
			Name: "conclude/nonce", Holds: "an attempt that lost its lease writes no result",
			In:     conductorDir,
			Text:   `If:  table.And(table.Eq(runstate.NodeNonce, w.item.Nonce), table.Eq(runstate.NodeStatus, string(engine.Running))),`,
			Broken: `If:  table.Eq(runstate.NodeStatus, string(engine.Running)),`,
			Tests:  conductor("TestLeasesAreLinear"),
		},
		{
			Name: "conclude/finished", Holds: "a result is never overwritten",
			In:     conductorDir,
			Text:   `If:  table.And(table.Eq(runstate.NodeNonce, w.item.Nonce), table.Eq(runstate.NodeStatus, string(engine.Running))),`,
			Broken: `If:  table.Eq(runstate.NodeNonce, w.item.Nonce),`,
			Tests:  conductor("TestSimulatedFaults|TestSimulatedCancels|TestSimulatedCrashes"),
		},
		{
			Name: "conclude/lost answer", Holds: "a result that was written and sent again is one",
			In:     conductorDir,
			Text:   `if landed(item) {`,
			Broken: `if landed == nil {`,
			Tests:  conductor("TestEveryWriteMayBeSentAgain"),
		},
		{
			Name: "conclude/another's", Holds: "another attempt's result is not taken for one's own",
			In:     conductorDir,
			Text:   `return item.Nonce == w.item.Nonce && item.Status.Terminal()`,
			Broken: `return w != nil && item.Status.Terminal()`,
			Tests:  conductor("TestLeasesAreLinear"),
		},
		{
			Name: "suspend/lost answer", Holds: "a wait that was written and sent again is enqueued",
			In:     conductorDir,
			Text:   `return item.Suspended && item.Nonce == "" && item.Attempt == w.item.Attempt && item.Due == millis(until)`,
			Broken: `return false`,
			Tests:  conductor("TestEveryWriteMayBeSentAgain"),
		},
		{
			Name: "suspend/message", Holds: "a task that waits has a message of its own",
			In:     conductorDir,
			Text:   `return s.send(ctx, []ready{{w.node, w.item.Attempt}}, until.Sub(s.Clock.Now()))`,
			Broken: `return nil`,
			Tests:  conductor("TestWaitHoldsNoWorker"),
		},
		{
			Name: "retry/bound", Holds: "a task is tried again as often as retries says",
			In:     conductorDir,
			Text:   `!f.Final && used <= w.task.Retries {`,
			Broken: `!f.Final && used <= w.task.Retries+1 {`,
			Tests:  conductor("TestTimeoutEndsTimedOut"),
		},
		{
			Name: "retry/all", Holds: "no try that retries allows is kept back",
			In:     conductorDir,
			Text:   `!f.Final && used <= w.task.Retries {`,
			Broken: `!f.Final && used < w.task.Retries {`,
			Tests:  conductor("TestRetriesThenSucceeds"),
		},
		{
			Name: "retry/final", Holds: "what no retry mends is not tried again",
			In:     conductorDir,
			Text:   `!f.Final && used <= w.task.Retries {`,
			Broken: `used <= w.task.Retries {`,
			Tests:  conductor("TestSimulatedRuns"),
		},
		{
			Name: "retry/lost", Holds: "attempts that were lost with their workers are no retries",
			In:     conductorDir,
			Text:   `used := w.item.Attempt - w.item.Lost;`,
			Broken: `used := w.item.Attempt;`,
			Tests:  conductor("TestSimulatedCrashes"),
		},
		{
			Name: "retry/attempt", Holds: "each try is an attempt of its own",
			In:     conductorDir,
			Text:   `table.Set(runstate.NodeAttempt, w.item.Attempt+1),`,
			Broken: `table.Set(runstate.NodeAttempt, w.item.Attempt),`,
			Tests:  conductor("TestRetriesThenSucceeds"),
		},
		{
			Name: "retry/lost answer", Holds: "a retry that was written and sent again is enqueued",
			In:     conductorDir,
			Text:   `return item.Status == engine.Retrying && item.Attempt == w.item.Attempt+1`,
			Broken: `return false`,
			Tests:  conductor("TestEveryWriteMayBeSentAgain"),
		},
		{
			Name: "retry/message", Holds: "a retry has a message of its own",
			In:     conductorDir,
			Text:   `return s.send(ctx, []ready{{w.node, w.item.Attempt + 1}}, delay)`,
			Broken: `return nil`,
			Tests:  conductor("TestRetriesThenSucceeds"),
		},
		{
			Name: "failure/terminal", Holds: "the error of a terminal run never changes",
			In:     conductorDir,
			Text:   `If:  table.In(runstate.RunStatus, string(engine.Running), string(engine.CancellationRequested)),`,
			Broken: `If:  nil,`,
			Tests:  conductor("TestWhatComesTooLate"),
		},
		{
			Name: "failure/first", Holds: "a run keeps its first failure",
			In:     conductorDir,
			Text:   `table.SetIfAbsent(runstate.RunError, failure)`,
			Broken: `table.Set(runstate.RunError, failure)`,
			Tests:  conductor("TestTheFirstFailureIsKept"),
		},
		{
			Name: "walk/before delete", Holds: "a message whose walk failed is delivered again",
			In:     conductorDir,
			Text:   `if err := s.walk(ctx, *finished); err != nil {`,
			Broken: `if err := s.walk(ctx, *finished); err == context.Canceled {`,
			Tests:  conductor("TestEveryWriteMayFail"),
		},
		{
			Name: "message/failed", Holds: "a message that failed is not deleted",
			In:     conductorDir,
			Text:   `		verdict.Again = min(firstRetry<<max(receives-1, 0), mostRetry)`,
			Broken: `		return true`,
			Tests:  conductor("TestEveryWriteMayFail"),
		},
		{
			Name: "message/again", Holds: "a message that is delivered again goes on from what finished",
			In:     conductorDir,
			Text:   `return s.resume(ctx, r.node, other)`,
			Broken: `return nil, nil`,
			Tests:  conductor("TestEveryWriteMayFail"),
		},
		{
			Name: "inline/again", Holds: "so does what it went on with inline",
			In:     conductorDir,
			Text:   `if !own && other.Chain != s.chain {`,
			Broken: `if !own {`,
			Tests:  conductor("TestAMapThatAWorkerWentOnWith"),
		},
		{
			Name: "inline/marked", Holds: "a task says whose message's walk it belongs to",
			In: conductorDir,
			Text: `			table.Set(runstate.NodeChain, s.chain),
			table.Remove(runstate.NodeDue),`,
			Broken: `			table.Remove(runstate.NodeDue),`,
			Tests:  conductor("TestEveryWriteMayFail"),
		},
		{
			Name: "inline/others", Holds: "the ready nodes that a worker does not go on with are enqueued",
			In:     conductorDir,
			Text:   `if err := s.send(ctx, nodes[1:], 0); err != nil {`,
			Broken: `if err := s.send(ctx, nil, 0); err != nil {`,
			Tests:  conductor("TestFanOutAndJoin"),
		},
		{
			Name: "inline/budget", Holds: "a worker goes on with nothing that it has no time for",
			In:     conductorDir,
			Text:   `< s.need(nodes[0].node)+WriteMargin`,
			Broken: `< 0`,
			Tests:  conductor("TestAWorkerMindsItsTime"),
		},
		{
			Name: "attempt/time", Holds: "an attempt that passes its timeout_secs is TIMED_OUT",
			In: conductorDir,
			Text: `	case overran:
		result = timeoutResult(w.task)
	}`,
			Broken: `	case overran && result.Failure != nil:
		result = timeoutResult(w.task)
	}`,
			Tests: conductor("TestTimeoutEndsTimedOut"),
		},
		{
			Name: "output/after the write", Holds: "an attempt that lost its lease passes no output on",
			In: conductorDir,
			Text: `		do, kept = append(do, out...), value
`,
			Broken: `		do, kept = append(do, out...), value
		s.cache.keep(s.id, w.node, value)
`,
			Tests: conductor("TestSimulatedFaults|TestSimulatedCancels|TestSimulatedCrashes"),
		},
	}
}
