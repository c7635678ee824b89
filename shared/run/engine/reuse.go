package engine

// Source is the run that a retry from failed reuses results of.
type Source struct {
	Task     func(task int) Status               // PENDING where there is no record
	Instance func(task, index int) Status        // of a mapped task
	Width    func(task int) (width int, ok bool) // of a mapped task, ok if its list was evaluated
}

// ReusePlan lists the nodes of a new run that take the source's result.
type ReusePlan struct {
	Tasks     []int         // whole tasks, succeeded or skipped, in plan order
	Instances map[int][]int // of mapped tasks that run again: indexes of instances that succeeded
	Reused    []int         // the tasks among Tasks that succeeded, as the response counts and names them
}

// Reuse returns what a retry from failed reuses: a task that succeeded, if none
// of its ancestors runs again; a skipped one likewise, because the same inputs
// would skip it again; and the instances that succeeded of a mapped task that
// runs again, if its list is unchanged. If nothing succeeded the plan is empty,
// which means a full retry.
func (p *Plan) Reuse(order []int, src Source) ReusePlan {
	out := ReusePlan{Instances: map[int][]int{}}
	settled := make([]bool, len(p.tasks))
	for _, t := range order {
		upstream := true
		for _, d := range p.tasks[t].Deps {
			upstream = upstream && settled[d] //guard:reuse/ancestors drop operand 2
		}
		if !upstream {
			continue
		}
		switch st := src.Task(t); {
		case st == Succeeded || st == Reused: //guard:reuse/succeeded or st == Failed
			settled[t] = true
			out.Tasks, out.Reused = append(out.Tasks, t), append(out.Reused, t)
		case st == Skipped:
			settled[t] = true
			out.Tasks = append(out.Tasks, t)
		case p.tasks[t].Mapped:
			width, ok := src.Width(t)
			if !ok {
				continue
			}
			for i := range width {
				if s := src.Instance(t, i); s == Succeeded || s == Reused { //guard:reuse/instances or s != ""
					out.Instances[t] = append(out.Instances[t], i)
				}
			}
		}
	}
	if len(out.Reused) == 0 && len(out.Instances) == 0 { //guard:reuse/nothing false
		return ReusePlan{}
	}
	return out
}
