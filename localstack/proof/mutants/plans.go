package main

// plans are the guards of the pure engine: rules, outcomes, joins, reuse.
func plans() []Guard {
	decide := engine("TestDecide")
	return []Guard{
		{
			Name: "rule/all_done", Holds: "all_done runs, however its dependencies ended",
			In: engineDir,
			Text: `	case AllDone:
		return Running, OutcomeOK
`,
			Broken: "",
			Tests:  decide,
		},
		{
			Name: "rule/one_failed", Holds: "one_failed runs only if one failed",
			In: engineDir,
			Text: `return Skipped, OutcomeSkipped
	case NoneFailed:`,
			Broken: `return Running, OutcomeOK
	case NoneFailed:`,
			Tests: decide,
		},
		{
			Name: "rule/none_failed", Holds: "none_failed does not run if one failed",
			In: engineDir,
			Text: `	case NoneFailed:
		if failed {`,
			Broken: `	case NoneFailed:
		if failed && s.Skipped < 0 {`,
			Tests: decide,
		},
		{
			Name: "rule/none_failed, skipped", Holds: "a skipped dependency is fine for none_failed",
			In: engineDir,
			Text: `		return Running, OutcomeOK
	default: // all_success`,
			Broken: `		if s.Skipped > 0 {
			return Skipped, OutcomeSkipped
		}
		return Running, OutcomeOK
	default: // all_success`,
			Tests: decide,
		},
		{
			Name: "rule/all_success", Holds: "all_success does not run if one failed",
			In: engineDir,
			Text: `	default: // all_success
		if failed {`,
			Broken: `	default: // all_success
		if failed && s.OK < 0 {`,
			Tests: decide,
		},
		{
			Name: "rule/all_success, skipped", Holds: "all_success does not run if one was skipped",
			In: engineDir,
			Text: `		if s.Skipped > 0 {
			return Skipped, OutcomeSkipped
		}
		return Running, OutcomeOK
	}`,
			Broken: `		return Running, OutcomeOK
	}`,
			Tests: decide,
		},
		{
			Name: "rule/time-outs fail", Holds: "a time-out is a failure to the rules",
			In:     engineDir,
			Text:   `failed := s.Failed+s.TimedOut > 0`,
			Broken: `failed := s.Failed > 0`,
			Tests:  decide,
		},
		{
			Name: "outcome/time-out carried", Holds: "UPSTREAM_FAILED for no more than a time-out carries it",
			In:     engineDir,
			Text:   `if s.Failed == 0 {`,
			Broken: `if s.Failed < 0 {`,
			Tests:  decide,
		},
		{
			Name: "outcome/worst failed", Holds: "failed is worse than timed out",
			In: engineDir,
			Text: `	case s.Failed > 0:
		return OutcomeFailed
	case s.TimedOut > 0:`,
			Broken: `	case s.TimedOut == 0 && s.Failed > 0:
		return OutcomeFailed
	case s.TimedOut > 0:`,
			Tests: engine("TestWorst"),
		},
		{
			Name: "outcome/worst timed out", Holds: "timed out is worse than skipped",
			In: engineDir,
			Text: `	case s.TimedOut > 0:
		return OutcomeTimedOut
	case s.Skipped > 0:`,
			Broken: `	case s.TimedOut > 0 && s.Skipped == 0:
		return OutcomeTimedOut
	case s.Skipped > 0:`,
			Tests: engine("TestWorst"),
		},
		{
			Name: "outcome/run failed", Holds: "a run is FAILED if the worst of its sinks is",
			In: engineDir,
			Text: `	case OutcomeFailed:
		return Failed
`,
			Broken: "",
			Tests:  engine("TestRunStatus"),
		},
		{
			Name: "outcome/run timed out", Holds: "a run is TIMED_OUT if the worst of its sinks is",
			In: engineDir,
			Text: `	case OutcomeTimedOut:
		return TimedOut
`,
			Broken: "",
			Tests:  engine("TestRunStatus"),
		},
		{
			Name: "outcome/of a time-out", Holds: "a time-out is told from a failure",
			In: engineDir,
			Text: `	case TimedOut:
		return OutcomeTimedOut
	default:`,
			Broken: `	default:`,
			Tests:  engine("TestOutcomes"),
		},
		{
			Name: "outcome/cancelled", Holds: "a cancelled task is finished",
			In:     engineDir,
			Text:   `case Succeeded, Reused, Skipped, Failed, TimedOut, UpstreamFailed, Cancelled:`,
			Broken: `case Succeeded, Reused, Skipped, Failed, TimedOut, UpstreamFailed:`,
			Tests:  conductor("TestCancelStopsARunningTask|TestSimulatedCancels"),
		},
		{
			Name: "plan/END", Holds: "END waits for all sinks",
			In:     engineDir,
			Text:   `p.lead(sinks, p.End())`,
			Broken: `p.lead(sinks[:1], p.End())`,
			Tests:  engine("TestENDWaitsForAllSinks"),
		},
		{
			Name: "plan/join width", Holds: "no more is noted on an item than it holds",
			In:     engineDir,
			Text:   `	if n <= JoinWidth {`,
			Broken: `	if n <= JoinWidth+1 {`,
			Tests:  engine("TestEveryPlanEnds|TestTheWidestJoin"),
		},
		{
			Name: "plan/join need", Holds: "a join waits for all of its children",
			In:     engineDir,
			Text:   `leaves[i] = Target{Node: number, Need: min(JoinWidth, n-g*JoinWidth)}`,
			Broken: `leaves[i] = Target{Node: number, Need: 1}`,
			Tests:  engine("TestEveryPlanEnds|TestTheWidestJoin"),
		},
		{
			Name: "plan/map's joins", Holds: "a map waits for all of its instances",
			In:     engineDir,
			Text:   `return Target{Node: number, Need: min(JoinWidth, children-group*JoinWidth)}`,
			Broken: `return Target{Node: number, Need: min(JoinWidth-1, children-group*JoinWidth)}`,
			Tests:  engine("TestEveryPlanEnds"),
		},
		{
			Name: "reuse/ancestors", Holds: "a task is not reused if an ancestor of it runs again",
			In:     engineDir,
			Text:   `upstream = upstream && settled[d]`,
			Broken: `upstream = upstream && d >= 0`,
			Tests:  engine("TestReuse"),
		},
		{
			Name: "reuse/succeeded", Holds: "only what succeeded is reused",
			In: engineDir,
			Text: `switch st := src.Task(t); {
		case st == Succeeded || st == Reused:`,
			Broken: `switch st := src.Task(t); {
		case st == Succeeded || st == Reused || st == Failed:`,
			Tests: engine("TestReuse"),
		},
		{
			Name: "reuse/instances", Holds: "only instances that succeeded are reused",
			In:     engineDir,
			Text:   `if s := src.Instance(t, i); s == Succeeded || s == Reused {`,
			Broken: `if s := src.Instance(t, i); s != "" {`,
			Tests:  engine("TestReuse"),
		},
		{
			Name: "reuse/nothing", Holds: "if nothing succeeded a retry is a full one",
			In:     engineDir,
			Text:   `if len(out.Reused) == 0 && len(out.Instances) == 0 {`,
			Broken: `if len(out.Tasks) < 0 {`,
			Tests:  engine("TestReuse"),
		},
	}
}
