package backfills

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"millrace/shared/account/tenant"
	"millrace/shared/kit/due"
	"millrace/shared/kit/record"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
)

// The states of a backfill. A dry run is not stored.
const (
	running   = "RUNNING"
	cancelled = "CANCELLED"
	completed = "COMPLETED"
	dryRun    = "DRY_RUN"
)

// The states of an interval. Those of a run that has ended are its own, but for
// TIMED_OUT, which is FAILED.
const (
	pending    = "PENDING"
	dispatched = "DISPATCHED"
	succeeded  = "SUCCEEDED"
	failed     = "FAILED"
)

// Job is a backfill. Its size does not grow with its number of intervals.
//
// Stored items: the jobs at <org>#backfills, by id, in the due index while they
// are unfinished; at <org>#backfill#<id>:
//
//	plan    plan, which is not changed
//	<%05d>  settled: an interval that is finished, by its index
type Job struct {
	record.Meta
	due.Entry      `json:"-"`
	BackfillID     string   `table:"id" json:"backfill_id" doc:"Empty for a dry run"`
	FlowName       string   `table:"flow" json:"flow_name"`
	FlowVersion    *string  `table:"version,omitempty" json:"flow_version" doc:"null: the deployment decides when each run starts"`
	Deployment     *string  `table:"deployment,omitempty" json:"deployment" doc:"Of the stored schedule"`
	Environment    *string  `table:"env,omitempty" json:"environment" doc:"null: the deployment's, or default"`
	ExecutionMode  *string  `table:"tier,omitempty" json:"execution_mode" doc:"Of the stored schedule; null: the deployment's, or the flow version's"`
	Status         string   `table:"st" json:"status" enum:"RUNNING,COMPLETED,CANCELLED,DRY_RUN"`
	Total          int      `table:"n" json:"total" doc:"Intervals"`
	Dispatched     int      `table:"made" json:"dispatched" doc:"Intervals that have a run, whatever has become of it"`
	Completed      int      `table:"ok" json:"completed" doc:"Intervals that are SUCCEEDED"`
	Failed         int      `table:"bad" json:"failed" doc:"Intervals that are FAILED"`
	MaxConcurrency int      `table:"max" json:"max_concurrency"`
	FromEpoch      int64    `table:"from" json:"from_epoch"`
	ToEpoch        int64    `table:"to" json:"to_epoch"`
	DryRun         bool     `table:"-" json:"dry_run"`
	Mode           *string  `table:"mode" json:"mode" doc:"The cadence: cron or interval"`
	Next           int      `table:"next" json:"-"`   // the interval to be begun next
	Active         []active `table:"active" json:"-"` // intervals that were begun and are not finished
}

// active is an interval that was begun.
type active struct {
	Index int    `table:"i"`
	Run   string `table:"r,omitempty"` // "": none is known yet
}

// ended reports whether nothing of the job is left to be done.
func (j *Job) ended() bool { return j.Status != running && len(j.Active) == 0 }

var kind = record.Kind{Folder: "backfills", Type: "backfill", Noun: "Backfill"}

// plan is what a backfill was created with.
type plan struct {
	table.Key
	Times      []byte                     `table:"times"`
	Parameters map[string]json.RawMessage `table:"params,omitempty"`

	at []int64 // Times, decoded
}

// settled is a finished interval.
type settled struct {
	table.Key
	Status string `table:"st"`
	Run    string `table:"run,omitempty"`
	Reason string `table:"why,omitempty"`
}

const planSK = "plan" // behind all indexes

func partition(ctx context.Context, id string) string {
	return tenant.From(ctx).OrgID + "#backfill#" + id
}

func planKey(ctx context.Context, id string) table.Key {
	return table.Key{PK: partition(ctx, id), SK: planSK}
}

func settledKey(ctx context.Context, id string, index int) table.Key {
	return table.Key{PK: partition(ctx, id), SK: fmt.Sprintf("%05d", index)}
}

// loadPlan reads the plan of a job.
func (s *service) loadPlan(ctx context.Context, id string) (*plan, error) {
	p, err := table.Load[plan](ctx, s.jobs.Table, planKey(ctx, id), table.Consistent)
	if err == nil {
		p.at, err = decodeTimes(p.Times)
	}
	if err != nil {
		return nil, fmt.Errorf("read plan of a backfill: %w", err)
	}
	return &p, nil
}

// load reads the plan of a job and its finished intervals, by index.
func (s *service) load(ctx context.Context, id string) (*plan, map[int]settled, error) {
	var p plan
	done := map[int]settled{}
	for item, err := range table.All(ctx, s.jobs.Table, table.Query{PK: partition(ctx, id), Consistent: true}) {
		if err != nil {
			return nil, nil, fmt.Errorf("read intervals of a backfill: %w", err)
		}
		if item.Key().SK == planSK {
			if err := table.Unmarshal(item, &p); err != nil {
				return nil, nil, err
			}
			continue
		}
		var one settled
		var index int
		if err := table.Unmarshal(item, &one); err != nil {
			return nil, nil, err
		}
		if _, err := fmt.Sscanf(one.SK, "%d", &index); err != nil {
			return nil, nil, fmt.Errorf("read intervals of a backfill: unknown key %q", one.SK)
		}
		done[index] = one
	}
	var err error
	p.at, err = decodeTimes(p.Times)
	return &p, done, err
}

// encodeTimes encodes ascending Unix seconds: the first, then for each run of
// equal distances the distance and their number.
func encodeTimes(at []int64) []byte {
	if len(at) == 0 {
		return nil
	}
	out := binary.AppendVarint(nil, at[0])
	for i := 1; i < len(at); {
		step, n := at[i]-at[i-1], 1
		for i+n < len(at) && at[i+n]-at[i+n-1] == step {
			n++
		}
		out = binary.AppendUvarint(binary.AppendUvarint(out, uint64(step)), uint64(n))
		i += n
	}
	return out
}

// decodeTimes decodes what encodeTimes returned.
func decodeTimes(data []byte) ([]int64, error) {
	bad := fmt.Errorf("backfills: malformed times")
	if len(data) == 0 {
		return nil, nil
	}
	at, size := binary.Varint(data)
	if size <= 0 {
		return nil, bad
	}
	out := []int64{at}
	for data = data[size:]; len(data) > 0; {
		step, a := binary.Uvarint(data)
		n, b := binary.Uvarint(data[max(a, 0):])
		if a <= 0 || b <= 0 || n > maxIntervals || len(out)+int(n) > maxIntervals || step > math.MaxInt32*100 {
			return nil, bad
		}
		for range n {
			at += int64(step)
			out = append(out, at)
		}
		data = data[a+b:]
	}
	return out, nil
}

// logicalTime is the time of an interval.
func logicalTime(epoch int64) time.Time { return time.Unix(epoch, 0).UTC() }

// view returns one interval of a job as it was when the job was read. done are
// the finished ones, read later, of which the job may not know yet.
func (j *Job) view(index int, epoch int64, begun map[int]active, done map[int]settled) IntervalView {
	out := IntervalView{Index: index, LogicalEpoch: epoch, LogicalAt: clock.Format(logicalTime(epoch)), Status: pending}
	a, isActive := begun[index]
	switch one, finished := done[index]; {
	case isActive && a.Run != "":
		out.Status, out.RunID = dispatched, &a.Run
	case isActive:
	case index >= j.Next && j.Status == cancelled:
		out.Status = cancelled
	case index < j.Next && finished:
		out.Status = one.Status
		if one.Run != "" {
			out.RunID = &one.Run
		}
		if one.Reason != "" {
			out.Reason = &one.Reason
		}
	}
	return out
}

// views returns all intervals of a job.
func (j *Job) views(at []int64, done map[int]settled) []IntervalView {
	begun := make(map[int]active, len(j.Active))
	for _, a := range j.Active {
		begun[a.Index] = a
	}
	out := make([]IntervalView, len(at))
	for i, epoch := range at {
		out[i] = j.view(i, epoch, begun, done)
	}
	return out
}
