package main

// looks are the guards of what mends a run: whatever was killed or lost, it
// reaches its end.
func looks() []Guard {
	last := conductor("TestEveryWriteMayBeTheLast")
	lost := conductor("TestLooksMendWhatIsLost")
	return []Guard{
		{
			Name: "look/dispatch", Holds: "a run whose first message was lost is started",
			In:     conductorDir,
			Text:   `if !restarted && idle > LookEvery/2 {`,
			Broken: `if !restarted && idle < 0 {`,
			Tests:  lost,
		},
		{
			Name: "look/untold", Holds: "a dependent that was not told is told",
			In:     conductorDir,
			Text:   `if t.Need > 1 && (item == nil || !item.Noted(d.node)) {`,
			Broken: `if t.Need > 1 && item != nil && item.Noted(-1) {`,
			Tests:  last,
		},
		{
			Name: "look/ready", Holds: "a ready task whose message was lost is enqueued",
			In:     conductorDir,
			Text:   `case !decided && stalled:`,
			Broken: `case decided && stalled && !decided:`,
			Tests:  lost,
		},
		{
			Name: "look/roots", Holds: "so are the tasks a run begins with",
			In:     conductorDir,
			Text:   `s.missed(start, stalled) {`,
			Broken: `s.missed(start, stalled) && !stalled {`,
			Tests:  lost,
		},
		{
			Name: "look/expired", Holds: "a task whose lease ran out is taken up",
			In: conductorDir,
			Text: `			if !s.held(item, now) {
				s.ready`,
			Broken: `			if !s.held(item, now) && item.Nonce == "" {
				s.ready`,
			Tests: conductor("TestLostLeasesEndTheTask"),
		},
		{
			Name: "look/due", Holds: "a retry or a wait whose message was lost is enqueued",
			In:     conductorDir,
			Text:   `case item.Due != 0 && now.Sub(item.Due.Time()) > grace:`,
			Broken: `case item.Due != 0 && item.Due < 0:`,
			Tests:  lost,
		},
		{
			Name: "look/grace", Holds: "a wait whose time has not come is left to its message",
			In:     conductorDir,
			Text:   `case item.Due != 0 && now.Sub(item.Due.Time()) > grace:`,
			Broken: `case item.Due != 0:`,
			Tests:  conductor("TestLooksLeaveAWaitAlone"),
		},
		{
			Name: "look/END", Holds: "a run whose END fired is ended",
			In:     conductorDir,
			Text:   `if s.run.Worst == nil || stalled {`,
			Broken: `if s.run.Worst != nil && stalled {`,
			Tests:  last,
		},
		{
			Name: "look/on_failure lost", Holds: "an on_failure task whose message was lost is enqueued",
			In:     conductorDir,
			Text:   `if s.run.Worst == nil || stalled {`,
			Broken: `if s.run.Worst == nil {`,
			Tests:  lost,
		},
		{
			Name: "look/on_failure", Holds: "a run whose on_failure is over is ended",
			In: conductorDir,
			Text: `	if d.node == s.flow.plan.OnFailure() {
		return true // the run would be over
	}
`,
			Broken: "",
			Tests:  conductor("TestALookEndsARunWhoseOnFailureIsOver"),
		},
		{
			Name: "look/map", Holds: "a map whose instances are all finished is ended",
			In:     conductorDir,
			Text:   `if decided && !item.Status.Terminal() {`,
			Broken: `if decided && item.Status == "" {`,
			Tests:  last,
		},
		{
			Name: "look/join", Holds: "a join of one is looked through",
			In:     conductorDir,
			Text:   `if t.Need == 1 && s.missed(`,
			Broken: `if t.Need == 0 && s.missed(`,
			Tests:  conductor("TestLooksMendWhatIsLost"),
		},
		{
			Name: "look/instances", Holds: "instances whose messages were lost are enqueued",
			In: conductorDir,
			Text: `				if err := s.expandAll(ctx, n, *item.Width); err != nil {
					return err
				}
`,
			Broken: "",
			Tests:  lost,
		},
		{
			Name: "look/joins", Holds: "a complete join is gone on from",
			In:     conductorDir,
			Text:   `return d, item.Sets().Count() >= s.flow.plan.JoinNeed(n, d.width), nil`,
			Broken: `return d, false, nil`,
			Tests:  conductor("TestLooksGoOnFromJoins"),
		},
		{
			Name: "look/half a join", Holds: "a join that is not complete is not gone on from",
			In:     conductorDir,
			Text:   `return d, item.Sets().Count() >= s.flow.plan.JoinNeed(n, d.width), nil`,
			Broken: `return d, true, nil`,
			Tests:  conductor("TestLooksGoOnFromJoins"),
		},
		{
			Name: "look/restarts", Holds: "a restart multiplies no messages",
			In:     conductorDir,
			Text:   `s.repair(ctx, now, !restarted && idle >= LookEvery)`,
			Broken: `s.repair(ctx, now, idle >= 0)`,
			Tests:  conductor("TestLooksDoNotMultiplyMessages"),
		},
		{
			Name: "look/finalize", Holds: "a terminal run that is still due is archived and told",
			In: conductorDir,
			Text: `	case s.run.Status.RunEnded():
		return s.finalize(ctx)
	case s.run.Fenced(now) != "":`,
			Broken: `	case s.run.Status.RunEnded():
		return nil
	case s.run.Fenced(now) != "":`,
			Tests: last,
		},
		{
			Name: "look/stopped", Holds: "a run that was stopped is ended by a look",
			In:   conductorDir,
			Text: `if err := s.settle(ctx); err != nil || s.run.Status.RunEnded() {`,
			Broken: `if s.run.Status.RunEnded() {
			var err error`,
			Tests: conductor("TestCancelStopsARunningTask"),
		},
		{
			Name: "look/postponed", Holds: "a look puts no run that is over back into the due index",
			In: conductorDir,
			Text: `		If:  table.In(runstate.RunStatus, string(engine.Queued), string(engine.Running), string(engine.CancellationRequested)),
`,
			Broken: "",
			Tests:  conductor("TestWhatComesTooLate"),
		},
		{
			Name: "look/next", Holds: "a look puts a live run where the next tick finds it",
			In:     conductorDir,
			Text:   `next := now.Add(min(max(LookEvery, after), LookMost))`,
			Broken: `next := now.Add(min(max(LookEvery, after), LookMost) * 100)`,
			Tests:  conductor("TestLooksLeaveAWaitAlone"),
		},
		{
			Name: "look/deadline", Holds: "a run is due again at its deadline, at the latest",
			In:     conductorDir,
			Text:   `s.run.Deadline.Time().After(now) && s.run.Deadline.Time().Before(next) {`,
			Broken: `s.run.Deadline.Time().After(now) && s.run.Deadline.Time().Before(now) {`,
			Tests:  conductor("TestADeadlineIsDue"),
		},
	}
}
