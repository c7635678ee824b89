package main

// runs are the guards of a run's status: it begins before its tasks do, ends
// once, by its own doing or by being stopped, and is forgotten by the due index
// only when its end is known.
func runs() []Guard {
	return []Guard{
		{
			Name: "start/first", Holds: "QUEUED turns to RUNNING before any task is claimed",
			In: conductorDir,
			Text: `		item, err := s.Table.Update(ctx, table.Update{
			Key: runstate.RunKey(s.org, s.id), Do: do,`,
			Broken: `		if err := s.begin(ctx); err != nil {
			return err
		}
		item, err := s.Table.Update(ctx, table.Update{
			Key: runstate.RunKey(s.org, s.id), Do: do,`,
			Tests: conductor("TestSimulatedRuns"),
		},
		{
			Name: "start/queued", Holds: "only a run that is QUEUED turns to RUNNING",
			In: conductorDir,
			Text: `			If: table.Eq(runstate.RunStatus, string(engine.Queued)),
`,
			Broken: "",
			Tests:  conductor("TestAStartMeetsACancel"),
		},
		{
			Name: "start/deadline", Holds: "the deadline of a run is noted when it starts",
			In:     conductorDir,
			Text:   `if s.run.Timeout > 0 {`,
			Broken: `if s.run.Timeout < 0 {`,
			Tests:  conductor("TestDeadlineEndsTheRun"),
		},
		{
			Name: "end/running", Holds: "a run ends once: a terminal run never changes",
			In:     conductorDir,
			Text:   `If: table.And(table.Eq(runstate.RunStatus, string(engine.Running)), table.Absent(runstate.RunFence)),`,
			Broken: `If: table.Absent(runstate.RunFence),`,
			Tests:  conductor("TestWhatComesTooLate"),
		},
		{
			Name: "end/fence", Holds: "a run that was stopped ends in no other way",
			In: conductorDir,
			Text: `		If: table.And(table.Eq(runstate.RunStatus, string(engine.Running)), table.Absent(runstate.RunFence)),
	})
	if errors.Is(err, table.ErrConditionFailed) {
		return s.settle(ctx)`,
			Broken: `		If: table.Eq(runstate.RunStatus, string(engine.Running)),
	})
	if errors.Is(err, table.ErrConditionFailed) {
		return s.settle(ctx)`,
			Tests: conductor("TestADeadlineIsFinal"),
		},
		{
			Name: "end/on_failure", Holds: "on_failure runs before a failed run is terminal",
			In:     conductorDir,
			Text:   `if status == engine.Succeeded || s.flow.OnFailure == nil {`,
			Broken: `if s.flow.OnFailure == nil || status != "" {`,
			Tests:  conductor("TestFailureStopsDependentsAndRunsOnFailure"),
		},
		{
			Name: "end/worst", Holds: "what a run ends with is noted while it runs",
			In: conductorDir,
			Text: `		If:  table.Eq(runstate.RunStatus, string(engine.Running)),
	})
	if errors.Is(err, table.ErrConditionFailed) {
		return s.settle(ctx)
	}
	if err != nil {
		return fmt.Errorf("note outcome: %w", err)`,
			Broken: `	})
	if errors.Is(err, table.ErrConditionFailed) {
		return s.settle(ctx)
	}
	if err != nil {
		return fmt.Errorf("note outcome: %w", err)`,
			Tests: conductor("TestWhatComesTooLate"),
		},
		{
			Name: "stop/live leases", Holds: "a stopped run ends when no lease on its tasks lives",
			In:     conductorDir,
			Text:   `runs := s.held(item, now)`,
			Broken: `runs := false`,
			Tests:  conductor("TestAStoppedRunWaitsForItsTasks"),
		},
		{
			Name: "stop/look again", Holds: "a stopped run is looked at until nothing of it runs",
			In:     conductorDir,
			Text:   `return s.lookLater(ctx, CancelPoll)`,
			Broken: `return nil`,
			Tests:  conductor("TestAStoppedRunIsLookedAtAgain"),
		},
		{
			Name: "stop/renewed", Holds: "a task whose lease was renewed meanwhile still runs",
			In: conductorDir,
			Text: `		If: table.And(table.Eq(runstate.NodeNonce, item.Nonce), table.Eq(runstate.NodeStatus, string(engine.Running)),
			table.Eq(runstate.NodeLease, int64(item.LeaseUntil))),`,
			Broken: `		If: table.And(table.Eq(runstate.NodeNonce, item.Nonce), table.Eq(runstate.NodeStatus, string(engine.Running))),`,
			Tests:  conductor("TestTakingBackHeedsTheWorker"),
		},
		{
			Name: "stop/taken over", Holds: "a task that was taken over meanwhile still runs",
			In:     conductorDir,
			Text:   `If: table.And(table.Eq(runstate.NodeNonce, item.Nonce), table.Eq(runstate.NodeStatus, string(engine.Running)),`,
			Broken: `If: table.And(table.Eq(runstate.NodeStatus, string(engine.Running)),`,
			Tests:  conductor("TestTakingBackHeedsTheWorker"),
		},
		{
			Name: "stop/taken back", Holds: "an attempt whose lease ran out is cancelled before its run is over",
			In:     conductorDir,
			Text:   `if runs, err = s.takeBack(ctx, n, item, why); err != nil {`,
			Broken: `if runs, err = n < 0 && why == "", nil; err != nil {`,
			Tests:  conductor("TestSimulatedCancels|TestSimulatedCrashes"),
		},
		{
			Name: "stop/once", Holds: "a stopped run ends once",
			In:     conductorDir,
			Text:   `If:  table.Eq(runstate.RunStatus, string(from)),`,
			Broken: `If:  table.Or(table.Absent("nothing"), table.Eq(runstate.RunStatus, string(from))),`,
			Tests:  conductor("TestSimulatedCancels"),
		},
		{
			Name: "deadline/fence", Holds: "a run past its deadline ends in no other way",
			In:     conductorDir,
			Text:   `if why == runstate.FenceDeadline && s.run.Fence == "" {`,
			Broken: `if why == "never" {`,
			Tests:  conductor("TestADeadlineIsFinal"),
		},
		{
			Name: "deadline/cancel", Holds: "a deadline's fence does not replace a cancel's",
			In: conductorDir,
			Text: `		If:  table.And(table.Eq(runstate.RunStatus, string(engine.Running)), table.Absent(runstate.RunFence)),
	})
	if errors.Is(err, table.ErrConditionFailed) {
		return s.load(ctx)`,
			Broken: `	})
	if errors.Is(err, table.ErrConditionFailed) {
		return s.load(ctx)`,
			Tests: conductor("TestWhatComesTooLate"),
		},
		{
			Name: "deadline/watched", Holds: "a run is looked at when its deadline has come",
			In:     conductorDir,
			Text:   `return s.lookLater(ctx, wait+time.Second)`,
			Broken: `return nil`,
			Tests:  conductor("TestDeadlineEndsTheRun"),
		},
		{
			Name: "deadline/time", Holds: "a run past its deadline starts nothing",
			In:     runstateDir,
			Text:   `case r.Deadline != 0 && now.UnixMilli() >= int64(r.Deadline):`,
			Broken: `case r.Deadline != 0 && now.UnixMilli() < 0:`,
			Tests:  conductor("TestDeadlineEndsTheRun"),
		},
		{
			Name: "fence/ended", Holds: "a run that is over starts nothing",
			In: runstateDir,
			Text: `case r.Status.RunEnded():
		return "ended"`,
			Broken: `case r.Status == "":
		return "ended"`,
			Tests: conductor("TestSimulatedFaults"),
		},
		{
			Name: "due/archive", Holds: "a run stays in the due index until its log is archived",
			In: conductorDir,
			Text: `	if err := s.Logs.Archive(ctx, s.org, s.id); err != nil {
		return err
	}`,
			Broken: `	_ = s.Logs.Archive(ctx, s.org, s.id)`,
			Tests:  conductor("TestTheEndOfARunIsToldAndArchived"),
		},
		{
			Name: "due/published", Holds: "a run stays in the due index until its end is published",
			In: conductorDir,
			Text: `	if err != nil {
		return fmt.Errorf("publish end of run: %w", err)
	}`,
			Broken: `	_ = err`,
			Tests:  conductor("TestTheEndOfARunIsToldAndArchived"),
		},
		{
			Name: "due/kept", Holds: "the write that ends a run leaves it in the due index",
			In: conductorDir,
			Text: `			table.Set(runstate.RunStatus, string(status)),
			table.Set(runstate.RunEnded,`,
			Broken: `			table.Set(runstate.RunStatus, string(status)),
			table.Remove(runstate.DuePK), table.Remove(runstate.DueSK),
			table.Set(runstate.RunEnded,`,
			Tests: conductor("TestSimulatedCrashes"),
		},
		{
			Name: "due/left", Holds: "a run that is over and archived leaves the due index",
			In:     conductorDir,
			Text:   `table.Set(runstate.RunArchived, true), table.Remove(runstate.DuePK), table.Remove(runstate.DueSK)`,
			Broken: `table.Set(runstate.RunArchived, true)`,
			Tests:  conductor("TestSimulatedRuns"),
		},
		{
			Name: "log/before others end the run", Holds: "what a worker logged is stored before another can end the run",
			In:     conductorDir,
			Text:   `if !s.Resident { // others may`,
			Broken: `if s.run == nil { // others may`,
			Tests:  conductor("TestNoLogIsLost"),
		},
		{
			Name: "log/after the end", Holds: "nothing is logged of a run that is over",
			In:     conductorDir,
			Text:   `if w.task != nil && !s.run.Status.RunEnded() {`,
			Broken: `if w.task != nil {`,
			Tests:  conductor("TestNothingIsLoggedAfterTheEnd"),
		},
		{
			Name: "log/before the message is deleted", Holds: "what a worker that keeps nothing logged is stored when it is done",
			In:     conductorDir,
			Text:   `if err == nil && !s.Resident {`,
			Broken: `if err == nil && s.Conductor == nil {`,
			Tests:  conductor("TestNoLogIsLost"),
		},
	}
}
