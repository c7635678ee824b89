package main

// acceptance are the guards of how runs come into being and are stopped.
func acceptance() []Guard {
	keys := launch("TestKeysAreLinear")
	return []Guard{
		{
			Name: "accept/key", Holds: "one idempotency key makes one run",
			In:     launchDir,
			Text:   `return table.Put{Item: *i, If: table.Or(table.IsNew(), table.Le(table.TTLAttribute, now.Unix()))}`,
			Broken: `return table.Put{Item: *i, If: table.Or(table.IsNew(), table.Le(table.TTLAttribute, 2*now.Unix()))}`,
			Tests:  keys,
		},
		{
			Name: "accept/key in the transaction", Holds: "a key is used by the write that makes the run",
			In:   launchDir,
			Text: `		writes = append(writes, p.idem.put(l.Clock.Now()))`,
			Broken: `		if err := l.Table.Put(ctx, p.idem.put(l.Clock.Now())); err != nil {
			return runstate.Run{}, err
		}`,
			Tests: keys,
		},
		{
			Name: "accept/raced", Holds: "of two at once the second is answered with the first's run",
			In:     launchDir,
			Text:   `failed := tx.Failed(len(writes) - 1); failed {`,
			Broken: `failed := tx.Failed(len(writes) - 1); failed && p == nil {`,
			Tests:  launch("TestTwoRequestsOfOneKeyAtOnce"),
		},
		{
			Name: "accept/fingerprint", Holds: "a key does not answer another request",
			In:     launchDir,
			Text:   `if old.Request != i.Request {`,
			Broken: `if old.Request == "" {`,
			Tests:  keys,
		},
		{
			Name: "accept/key expires", Holds: "a key that has expired is free, whether it was removed or not",
			In:     launchDir,
			Text:   `(err == nil && old.Expires <= l.Clock.Now().Unix())`,
			Broken: `(err == nil && old.Expires <= 0)`,
			Tests:  launch("TestAKeyExpires"),
		},
		{
			Name: "accept/expired key is taken", Holds: "and is taken by the next request",
			In:     launchDir,
			Text:   `If: table.Or(table.IsNew(), table.Le(table.TTLAttribute, now.Unix()))}`,
			Broken: `If: table.Or(table.IsNew(), table.Le(table.TTLAttribute, now.Unix()-now.Unix()))}`,
			Tests:  launch("TestAKeyExpires"),
		},
		{
			Name: "accept/key consistent", Holds: "a key is not looked up in an old state",
			In:     launchDir,
			Text:   `i.Key, table.Consistent)`,
			Broken: `i.Key)`,
			Tests:  launch("TestKeysAreReadConsistently"),
		},
		{
			Name: "accept/audit", Holds: "a run and its audit entry are written together",
			In: launchDir,
			Text: `		audit.EntryFor(ctx, p.run.Org, l.Clock.Now(), p.audit),
	}`,
			Broken: `	}
	if err := l.Table.Put(ctx, audit.EntryFor(ctx, p.run.Org, l.Clock.Now(), p.audit)); err != nil {
		return runstate.Run{}, err
	}`,
			Tests: keys,
		},
		{
			Name: "accept/due", Holds: "a run whose message is lost is found",
			In:     launchDir,
			Text:   `runstate.DueAt(org, id, now.Add(firstLook))`,
			Broken: `runstate.DueAt(org, id, now.Add(10000*firstLook))`,
			Tests:  conductor("TestSimulatedFaults"),
		},
		{
			Name: "accept/send", Holds: "a run whose message cannot be sent is accepted",
			In:     launchDir,
			Text:   `ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout)`,
			Broken: `ctx, cancel := context.WithTimeout(ctx, sendTimeout)`,
			Tests:  launch("TestAMessageIsSentThoughTheCallerLeaves"),
		},
		{
			Name: "cancel/raced", Holds: "a cancel meets the run as it is: one that ended stays as it ended",
			In: launchDir,
			Text: `			If: table.Eq(runstate.RunStatus, string(from)),
`,
			Broken: "",
			Tests:  conductor("TestACancelMeetsAnEnd"),
		},
		{
			Name: "cancel/fence", Holds: "a cancel writes the fence",
			In:     launchDir,
			Text:   `table.Set(runstate.RunFence, run.Fence), table.Set(runstate.RunFenceBy`,
			Broken: `table.Set(runstate.RunFenceBy`,
			Tests:  conductor("TestSimulatedCancels"),
		},
		{
			Name: "cancel/audit", Holds: "a cancel and its audit entry are written together",
			In: launchDir,
			Text: `	err := l.Table.Transact(ctx,
`,
			Broken: `	if err := l.Table.Put(ctx, audit.EntryFor(ctx, run.Org, now, audit.Change{
		Action: "cancel", ResourceType: "run", ResourceID: run.ID, Before: before, After: snapshot(run),
	})); err != nil {
		return false, err
	}
	err := l.Table.Transact(ctx,
`,
			Tests: conductor("TestSimulatedCancels"),
		},
		{
			Name: "cancel/look", Holds: "a cancel asks for the look that ends the run",
			In:     launchDir,
			Text:   `l.send(ctx, events.Runs, events.Run{Kind: events.RunLook, Org: run.Org, Run: run.ID, Trace: telemetry.From(ctx).Trace.String()})`,
			Broken: `_, _ = events.Runs, telemetry.From`,
			Tests:  conductor("TestAStoppedRunIsLookedAtAgain"),
		},
		{
			Name: "retry/ended", Holds: "only a run that has ended is retried",
			In:     launchDir,
			Text:   `if !source.Status.RunEnded() {`,
			Broken: `if source.Status == "" {`,
			Tests:  Tests{"functions/runs", "TestRun11_Retry"},
		},
		{
			Name: "retry/same version", Holds: "a retry runs what its source ran",
			In:     launchDir,
			Text:   `if v.SpecHash != source.SpecHash || v.ArtifactKey != source.Artifact {`,
			Broken: `if v.SpecHash == "" {`,
			Tests:  Tests{"functions/runs", "TestRetryOfAFlowRegisteredAnew"},
		},
	}
}
