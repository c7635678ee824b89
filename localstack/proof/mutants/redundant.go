package main

// redundant lists guards that no test can miss, because others hold what they
// hold. They stand in the source as a second line. Holds is the proof.
func redundant() []Guard {
	whole := conductor("TestSimulatedFaults|TestSimulatedCrashes")
	return []Guard{
		{
			Name: "claim/suspended", Holds: "whatever sets a due time of a RUNNING item (suspend) takes its nonce away, and what sets a nonce " +
				"(claim, take over) takes the due time away or finds none: an item that is due has no nonce",
			In:     conductorDir,
			Text:   `table.And(table.Eq(runstate.NodeStatus, string(engine.Running)), table.Absent(runstate.NodeNonce), due),`,
			Broken: `table.And(table.Eq(runstate.NodeStatus, string(engine.Running)), due),`,
			Tests:  whole,
		},
		{
			Name: "take over/running", Holds: "whatever ends or gives back an attempt takes its lease away, so that the lease's time matches " +
				"that of a RUNNING item only",
			In:     conductorDir,
			Text:   `If: table.And(table.Eq(runstate.NodeStatus, string(engine.Running)), table.Eq(runstate.NodeNonce, old.Nonce),`,
			Broken: `If: table.And(table.Eq(runstate.NodeNonce, old.Nonce),`,
			Tests:  whole,
		},
		{
			Name: "stop/running", Holds: "as for a take-over: the lease's time matches that of a RUNNING item only",
			In:     conductorDir,
			Text:   `If: table.And(table.Eq(runstate.NodeNonce, item.Nonce), table.Eq(runstate.NodeStatus, string(engine.Running)),`,
			Broken: `If: table.And(table.Eq(runstate.NodeNonce, item.Nonce),`,
			Tests:  whole,
		},
		{
			Name: "map/width exists", Holds: "a map is collected when its last join is complete, that is after its instances, which come after its width",
			In:     conductorDir,
			Text:   `table.And(table.Eq(runstate.NodeStatus, string(engine.Running)), table.Exists(runstate.NodeWidth)),`,
			Broken: `table.Eq(runstate.NodeStatus, string(engine.Running)),`,
			Tests:  whole,
		},
		{
			Name: "fence/status", Holds: "a cancel writes the status with the fence, in one write",
			In: runstateDir,
			Text: `	case r.Status == engine.CancellationRequested || r.Status == engine.Cancelled:
		return FenceCancel
`,
			Broken: "",
			Tests:  whole,
		},
		{
			Name: "accept/new", Holds: "run ids are ULIDs of 80 random bits within a millisecond: none comes twice",
			In:     launchDir,
			Text:   `table.Put{Item: p.run, If: table.IsNew()},`,
			Broken: `table.Put{Item: p.run},`,
			Tests:  launch("TestKeysAreLinear"),
		},
		{
			Name: "accept/replay", Holds: "a key that is found used before the write is found so by the write's condition as well: " +
				"looking first saves the write",
			In:     launchDir,
			Text:   `err != nil || first != nil {`,
			Broken: `err != nil {`,
			Tests:  launch("TestKeysAreLinear"),
		},
		{
			Name: "attempt/stopped", Holds: "a worker that is stopped has a context that is over, with which no driver writes: it says so sooner",
			In: conductorDir,
			Text: `	case ctx.Err() != nil:
		return nil, ctx.Err() // the worker stops: its lease runs out
`,
			Broken: "",
			Tests:  conductor("TestLostLeasesEndTheTask"),
		},
		{
			Name: "walk/again", Holds: "a node of this walk that is finished and is taken for ready is not claimed, and the worker goes on from it: " +
				"the check saves that write",
			In: conductorDir,
			Text: `	if item.Status.Terminal() {
		return s.finished(ctx, n, item)
	}
	s.ready = append(s.ready, ready{n, max(item.Attempt, 1)})`,
			Broken: `	s.ready = append(s.ready, ready{n, max(item.Attempt, 1)})`,
			Tests:  whole,
		},
		{
			Name: "end/on_failure again", Holds: "an on_failure that is over and is taken for ready is not claimed, and the worker ends the run, or the message " +
				"whose it was does: the check saves that write",
			In: conductorDir,
			Text: `		if item != nil && item.Status.Terminal() {
			return s.endRun(ctx, status)`,
			Broken: `		if item != nil && item.Status == "" {
			return s.endRun(ctx, status)`,
			Tests: whole,
		},
		{
			Name: "walk/chain", Holds: "a walk that goes on from a node of another message's repeats what that does, and each of its writes " +
				"may be repeated: the check saves work",
			In: conductorDir,
			Text: `	if item.Chain != s.chain {
		return nil, nil
	}
`,
			Broken: "",
			Tests:  whole,
		},
	}
}
