package fsck

import (
	"context"
	"encoding/json"
	"strings"

	"millrace/shared/account/audit"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/registry"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
)

// Check returns what is wrong with the store, in any state of its work.
func (s *Snapshot) Check(ctx context.Context) []string {
	entries := s.audited()
	for _, run := range s.Runs() {
		c := subject{s, run}
		c.record(entries)
		if run.Plan != nil {
			c.nodes(ctx)
			c.ending()
		}
	}
	s.orphans()
	s.indexes()
	s.keys()
	s.occurrences()
	s.versions(entries)
	return s.report()
}

// record checks a run's own item.
func (c subject) record(entries map[string]int) {
	made := "create"
	if c.Parent != "" {
		made = "retry"
		if c.Snapshot.Run(RunID{c.Org, c.Parent}) == nil {
			c.tell("its parent %s does not exist", c.Parent)
		}
	}
	for action, want := range map[string]int{made: 1, "cancel": 0} {
		if action == "cancel" && c.Fence == runstate.FenceCancel {
			want = 1
		}
		if got := entries[c.Org+" run "+c.ID+" "+action]; got != want {
			c.tell("it has %d audit entries of the action %s, not %d", got, action, want)
		}
	}
	ended := c.Status.RunEnded()
	if ended != (c.EndedAt != 0) {
		c.tell("it ended at %s", c.EndedAt)
	}
	stopped := c.Status == engine.Cancelled || c.Status == engine.CancellationRequested
	if stopped != (c.Fence == runstate.FenceCancel) {
		c.tell("its fence is %q", c.Fence)
	}
	archived := runlog.Archived(c.items[runstate.ArchiveKey(c.Org, c.ID)])
	switch {
	case c.Archived && (!ended || !archived || c.DuePK != ""):
		c.tell("it is done with: ended %t, archive %t, due %q", ended, archived, c.DueSK)
	case !c.Archived && c.DuePK == "":
		c.tell("it is not done with and will not come up")
	case c.DuePK != "" && c.DuePK != runstate.DueAt(c.Org, c.ID, c.Tasks, c.At).DuePK:
		c.tell("it is due in the partition %s", c.DuePK)
	}
	if c.Status == engine.Queued && len(c.Nodes) > 0 {
		c.tell("it has begun: %d nodes", len(c.Nodes))
	}
}

// ending checks that the status of a run that ended by itself follows from its
// sinks, and that no work of it is left.
func (c subject) ending() {
	if !c.Status.RunEnded() || c.Fence != "" {
		return
	}
	worst := engine.OutcomeOK
	for i := range c.Run.Flow.Tasks {
		outcome, done := c.outcome(engine.Node(i))
		if !done {
			c.tell("its task %s is not finished", c.Run.Flow.Tasks[i].Name)
			return
		}
		if len(c.Run.Flow.Dependents(i)) == 0 {
			worst = max(worst, outcome)
		}
	}
	if want := engine.RunStatus(worst); c.Status != want {
		c.tell("its sinks make it %s", want)
	}
	if c.Status != engine.Succeeded && c.Run.Flow.OnFailure != nil {
		if _, done := c.outcome(c.Plan.OnFailure()); !done {
			c.tell("its on_failure task is not finished")
		}
	}
	for n, item := range c.Nodes {
		if item.Status != "" && !item.Status.Terminal() {
			c.tell("its node %d is %s", n, item.Status)
		}
	}
}

// audited counts the audit entries by workspace, resource and action.
func (s *Snapshot) audited() map[string]int {
	out := map[string]int{}
	for pk, items := range s.parts {
		if _, ok := audit.Workspace(pk); !ok {
			continue
		}
		for _, item := range items {
			var r audit.Record
			if err := table.Unmarshal(item, &r); err != nil {
				s.tell("audit entry %v cannot be read: %v", item.Key(), err)
				continue
			}
			want := r
			if want.Place(); want != r {
				s.tell("audit entry %v stands where it does not belong", item.Key())
			}
			out[r.OrgID+" "+r.ResourceType+" "+r.ResourceID+" "+r.Action]++
			var meta struct {
				FlowVersion string `json:"flow_version"`
				Registered  bool   `json:"registered"`
				Version     struct {
					FlowName    string `json:"flow_name"`
					FlowVersion string `json:"flow_version"`
				} `json:"version"`
			}
			if r.Metadata != "" && json.Unmarshal([]byte(r.Metadata), &meta) != nil {
				continue
			}
			switch {
			case r.ResourceType == "flow" && r.Action == "register":
				out[r.OrgID+" version "+r.ResourceID+" "+meta.FlowVersion]++
			case r.ResourceType == "deployment" && meta.Registered:
				out[r.OrgID+" version "+meta.Version.FlowName+" "+meta.Version.FlowVersion]++
			}
		}
	}
	return out
}

// versions checks that a flow's count of versions is right, and that each was
// registered once.
func (s *Snapshot) versions(entries map[string]int) {
	for pk, heads := range s.parts {
		org, ok := strings.CutSuffix(pk, "#flows")
		if !ok {
			continue
		}
		for _, item := range heads {
			var head registry.Head
			if err := table.Unmarshal(item, &head); err != nil {
				s.tell("flow %v cannot be read: %v", item.Key(), err)
				continue
			}
			count := 0
			for _, v := range s.parts[org+"#flow#"+head.FlowName] {
				var version registry.Version
				if !strings.HasPrefix(v.Key().SK, "v#") || table.Unmarshal(v, &version) != nil || version.Incarnation != head.Incarnation {
					continue
				}
				count++
				if got := entries[org+" version "+head.FlowName+" "+version.FlowVersion]; got != 1 {
					s.tell("flow %s %s has %d audit entries of its making", head.FlowName, version.FlowVersion, got)
				}
			}
			if count != int(item["versions"].Int()) {
				s.tell("flow %s counts %d versions and has %d", head.FlowName, item["versions"].Int(), count)
			}
		}
	}
}

// keys checks that an idempotency key names one run, and that a run has at most
// one key.
func (s *Snapshot) keys() {
	of := map[string]string{}
	for pk, items := range s.parts {
		org, _, ok := strings.Cut(pk, "#idempotency#")
		if !ok {
			continue
		}
		for _, item := range items {
			id, flow := item["run"].Str(), item.Key().SK
			run := s.runs[RunID{org, id}]
			switch {
			case run == nil:
				s.tell("an idempotency key names the run %s, which does not exist", id)
			case run.Run.Flow != flow:
				s.tell("an idempotency key of %s names the run %s of %s", flow, id, run.Run.Flow)
			case of[id] != "":
				s.tell("two idempotency keys name the run %s", id)
			}
			of[id] = pk
		}
	}
}

// occurrences checks that occurrence keys name existing runs, each at most
// once.
func (s *Snapshot) occurrences() {
	of := map[string]string{}
	for pk, items := range s.parts {
		org, _, ok := strings.Cut(pk, "#occurrence#")
		if !ok {
			continue
		}
		for _, item := range items {
			id := item["run"].Str()
			switch {
			case s.runs[RunID{org, id}] == nil:
				s.tell("%v names the run %s, which does not exist", item.Key(), id)
			case of[id] != "":
				s.tell("%v names the run %s, as %s does", item.Key(), id, of[id])
			}
			of[id] = pk
		}
	}
}

// orphans checks that items of runs belong to existing runs.
func (s *Snapshot) orphans() {
	for pk := range s.parts {
		org, rest, ok := strings.Cut(pk, "#run#")
		if !ok {
			continue
		}
		id, _, _ := strings.Cut(rest, "#")
		if s.runs[RunID{org, id}] == nil {
			s.tell("%s belongs to a run that does not exist", pk)
		}
	}
}

// indexes checks that the index entries match the items.
func (s *Snapshot) indexes() {
	if s.Entries == nil {
		return
	}
	want := map[Entry]bool{}
	for key, item := range s.items {
		for _, x := range table.Indexes {
			if at, stands := item.Entry(x); stands {
				want[Entry{string(x), at, key}] = true
			}
		}
	}
	for e := range want {
		if !s.Entries[e] {
			s.tell("the index %s lacks the entry %v of %v", e.Index, e.At, e.Item)
		}
	}
	for e := range s.Entries {
		if e.Index != table.TTLAttribute && !want[e] {
			s.tell("the index %s has an entry %v that %v does not make", e.Index, e.At, e.Item)
		}
	}
}
