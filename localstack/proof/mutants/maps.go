package main

// maps are the guards of mapped tasks.
func maps() []Guard {
	return []Guard{
		{
			Name: "map/width first", Holds: "a map's width is written before any instance",
			In:   conductorDir,
			Text: `	item, err := s.conclude(ctx, w, do, func(`,
			Broken: `	width := len(list)
	s.remember(w.node, &runstate.Node{Status: "RUNNING", Width: &width})
	if err := s.expandParts(ctx, w.node, width); err != nil {
		return nil, err
	}
	if err := s.send(ctx, s.ready, 0); err != nil {
		return nil, err
	}
	s.ready = nil
	item, err := s.conclude(ctx, w, do, func(`,
			Tests: conductor("TestSimulatedRuns|TestSimulatedFaults"),
		},
		{
			Name: "map/lost answer", Holds: "a width that was written and sent again is written",
			In:     conductorDir,
			Text:   `return item.Width != nil && item.ListHash == hash`,
			Broken: `return false`,
			Tests:  conductor("TestEveryWriteMayBeSentAgain"),
		},
		{
			Name: "map/under way", Holds: "a map whose instances are under way is not begun again",
			In:     conductorDir,
			Text:   `case old.Status == engine.Running && old.Width != nil: // its`,
			Broken: `case old.Status == engine.Running && old.Width == nil && old.Nonce == "": // its`,
			Tests:  conductor("TestEveryWriteMayFail"),
		},
		{
			Name: "map/goes on", Holds: "a map whose worker died begins its instances",
			In:     conductorDir,
			Text:   `return nil, s.begunParts(ctx, n, *item.Width)`,
			Broken: `return nil, nil`,
			Tests:  conductor("TestEveryWriteMayFail"),
		},
		{
			Name: "map/parts", Holds: "a wide map has a message for each hundred instances",
			In:     conductorDir,
			Text:   `	for p := 1; p*engine.FanWidth < width; p++ {`,
			Broken: `	for p := 2; p*engine.FanWidth < width; p++ {`,
			Tests:  conductor("TestMapHandsOnItsList"),
		},
		{
			Name: "map/ends once", Holds: "the list that a map handed on is not replaced",
			In:     conductorDir,
			Text:   `table.And(table.Eq(runstate.NodeStatus, string(engine.Running)), table.Exists(runstate.NodeWidth)),`,
			Broken: `table.Exists(runstate.NodeWidth),`,
			Tests:  conductor("TestSimulatedFaults|TestSimulatedCrashes"),
		},
		{
			Name: "map/worst", Holds: "a map is what the worst of its instances is",
			In:     conductorDir,
			Text:   `status := engine.MapStatus(last.outcome)`,
			Broken: `status := engine.MapStatus(engine.OutcomeOK)`,
			Tests:  conductor("TestSimulatedRuns"),
		},
		{
			Name: "map/null", Holds: "an instance that did not succeed is null in the list",
			In: conductorDir,
			Text: `		case item == nil || item.Outcome() != engine.OutcomeOK:
			_, _ = w.WriteString("null")`,
			Broken: `		case item == nil:
			_, _ = w.WriteString("null")`,
			Tests: conductor("TestSimulatedRuns"),
		},
		{
			Name: "map/again", Holds: "a map that ended goes on, whoever finds it",
			In:     conductorDir,
			Text:   `stored = failed.Old // ended before, by another walk from the last join`,
			Broken: `_ = failed.Old; return nil, nil`,
			Tests:  conductor("TestEveryWriteMayFail"),
		},
		{
			Name: "map/same list", Holds: "instances are reused only if the list is unchanged",
			In:     conductorDir,
			Text:   `src.ListHash == hash, err`,
			Broken: `src.ListHash != "", err`,
			Tests:  conductor("TestRetryOfAnotherListReusesNoInstance"),
		},
		{
			Name: "map/instances", Holds: "an instance that succeeded is reused by itself",
			In:     conductorDir,
			Text:   `if item.Reuse && in.Reuse != nil && in.Reuse.Instance(ref.Task, i) {`,
			Broken: `if item.Reuse && in.Reuse == nil {`,
			Tests:  conductor("TestRetryFromFailedReuses"),
		},
	}
}
