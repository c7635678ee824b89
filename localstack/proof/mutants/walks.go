package main

// walks are the guards of what follows a finished task: each dependent is told
// once, decided when all are finished, and never forgotten.
func walks() []Guard {
	sim := conductor("TestSimulatedRuns|TestSimulatedFaults")
	return []Guard{
		{
			Name: "tell/all", Holds: "a task is decided when all of its dependencies are finished",
			In:     conductorDir,
			Text:   `if sets = item.Sets(); sets.Count() < t.Need {`,
			Broken: `if sets = item.Sets(); sets.Count() < 1 {`,
			Tests:  sim,
		},
		{
			Name: "tell/idempotent", Holds: "a dependency that is told twice counts once",
			In:     conductorDir,
			Text:   `sets[set] = append(sets[set], int(e.from.node))`,
			Broken: `sets[set] = append(sets[set], int(e.from.node)+100_000*int(s.Clock.Now().UnixNano()%1_000_000_000))`,
			Tests:  sim,
		},
		{
			Name: "tell/all kept", Holds: "no dependency's telling replaces another's",
			In:     conductorDir,
			Text:   `do = append(do, table.AddToSet(set, sets[set]...))`,
			Broken: `do = append(do, table.Set(set, table.SetOf(sets[set]...)))`,
			Tests:  conductor("TestFanOutAndJoin"),
		},
		{
			Name: "tell/outcome", Holds: "a dependency is noted with its outcome",
			In:     conductorDir,
			Text:   `set := runstate.SetOf(e.from.outcome)`,
			Broken: `set := runstate.NodeOK`,
			Tests:  sim,
		},
		{
			Name: "join/worst", Holds: "a join carries the worst outcome",
			In:     conductorDir,
			Text:   `return &done{node: t.Node, outcome: sets.Worst(), width: d.width}, nil`,
			Broken: `return &done{node: t.Node, outcome: engine.OutcomeOK, width: d.width}, nil`,
			Tests:  conductor("TestJoinsCarryTheWorst"),
		},
		{
			Name: "end/sinks", Holds: "a run ends by the worst of its sinks",
			In:     conductorDir,
			Text:   `return nil, s.end(ctx, sets.Worst())`,
			Broken: `return nil, s.end(ctx, d.outcome)`,
			Tests:  sim,
		},
		{
			Name: "walk/wide", Holds: "a wide fan-out has a message for each part",
			In:     conductorDir,
			Text:   `for p := 1; p*engine.FanWidth < len(targets); p++ {`,
			Broken: `for p := 2; p*engine.FanWidth < len(targets); p++ {`,
			Tests:  conductor("TestFanOutAndJoin"),
		},
		{
			Name: "walk/failure", Holds: "a failure is noted before anything can end the run",
			In:     conductorDir,
			Text:   `if d.failure != "" {`,
			Broken: `if d.failure == "never" {`,
			Tests:  conductor("TestEveryWriteMayFail"),
		},
		{
			Name: "walk/again, unfinished", Holds: "and takes up what had not begun",
			In: conductorDir,
			Text: `	s.ready = append(s.ready, ready{n, max(item.Attempt, 1)})
	return nil, nil`,
			Broken: `	return nil, nil`,
			Tests:  conductor("TestEveryWriteMayFail"),
		},
		{
			Name: "decide/once", Holds: "what a node was found to be is not found again",
			In:     conductorDir,
			Text:   `Key: runstate.NodeKey(s.org, s.id, n), Do: do, If: table.Absent(runstate.NodeStatus),`,
			Broken: `Key: runstate.NodeKey(s.org, s.id, n), Do: do,`,
			Tests:  conductor("TestSimulatedFaults|TestSimulatedCrashes"),
		},
		{
			Name: "decide/rule", Holds: "a task runs only if its rule holds",
			In:     conductorDir,
			Text:   `status, carried = rule.Decide(sets)`,
			Broken: `status, carried = engine.AllDone.Decide(sets)`,
			Tests:  sim,
		},
		{
			Name: "decide/one_failed at the start", Holds: "a task of one_failed that depends on nothing is skipped",
			In:     conductorDir,
			Text:   `sets.Count() > 0 || rule == engine.OneFailed {`,
			Broken: `sets.Count() > 0 {`,
			Tests:  sim,
		},
		{
			Name: "decide/carried", Holds: "what a time-out stopped carries the time-out",
			In:     conductorDir,
			Text:   `item.Carried = &outcome`,
			Broken: `_ = outcome`,
			Tests:  conductor("TestTimeoutEndsTimedOut"),
		},
		{
			Name: "decide/condition", Holds: "a task whose condition is false is skipped",
			In:     conductorDir,
			Text:   `case !holds:`,
			Broken: `case !holds && w.task.Condition == "":`,
			Tests:  conductor("TestConditionSkips"),
		},
		{
			Name: "reuse/tasks", Holds: "a task that is reused does not run",
			In:     conductorDir,
			Text:   `if in.Reuse != nil && in.Reuse.Has(ref.Task) {`,
			Broken: `if in.Reuse != nil && in.Reuse.Run == "" {`,
			Tests:  conductor("TestRetryFromFailedReuses"),
		},
		{
			Name: "reuse/output", Holds: "what a reused task hands on is the source's output",
			In:     conductorDir,
			Text:   `Output: src.Output, OutputRef: src.OutputRef,`,
			Broken: `Output: "1", OutputRef: src.OutputRef,`,
			Tests:  conductor("TestSimulatedRuns"),
		},
		{
			Name: "reuse/skipped", Holds: "what the source skipped is skipped again",
			In:     conductorDir,
			Text:   `if src.Status == engine.Skipped {`,
			Broken: `if src.Status == "" {`,
			Tests:  conductor("TestSimulatedRuns"),
		},
	}
}
