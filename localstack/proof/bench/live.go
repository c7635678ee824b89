package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"millrace/localstack/embedded/datadir"
	"millrace/localstack/embedded/pebblequeue"
	"millrace/localstack/embedded/pebbletable"
	"millrace/localstack/embedded/store"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

// waiting returns a flow whose runs wait for more than a day.
func waiting() flow {
	return newFlow("waiting", task{Name: "wait", Type: "wait", Config: map[string]any{"seconds": 100_000}})
}

// firstLive makes a run that waits in a data directory, and kills the server
// meanwhile.
func (b *bench) firstLive(ctx context.Context, dir string) (template, error) {
	s, err := b.serveOn(ctx, dir)
	if err != nil {
		return template{}, err
	}
	out := template{org: s.Credentials.OrgID}
	out.run, err = s.await(ctx, waiting())
	s.Kill()
	return out, err
}

// await starts a run and returns its id when its task waits.
func (s *server) await(ctx context.Context, f flow) (string, error) {
	if err := s.register(ctx, f); err != nil {
		return "", err
	}
	body, err := json.Marshal(f.run())
	if err != nil {
		return "", err
	}
	data, _, err := s.call(ctx, http.MethodPost, "/runs", body)
	if err != nil {
		return "", err
	}
	var run struct {
		ID string `json:"run_id"`
	}
	if err := json.Unmarshal(data, &run); err != nil {
		return "", err
	}
	for {
		data, _, err := s.call(ctx, http.MethodGet, "/runs/"+run.ID, nil)
		if err != nil {
			return "", err
		}
		var now struct {
			Tasks []struct{ Status string } `json:"task_runs"`
		}
		if err := json.Unmarshal(data, &now); err != nil {
			return "", err
		}
		if err := clock.Sleep(ctx, 10*rest); err != nil { // it has begun, and waits soon
			return "", err
		}
		if len(now.Tasks) == 1 && now.Tasks[0].Status != "" && now.Tasks[0].Status != string(engine.Queued) {
			return run.ID, nil
		}
	}
}

// fillLive makes n runs that wait like the first: with entries in the due
// index, spread over the reconciliation interval, and a task message in the
// queue.
func (h *history) fillLive(ctx context.Context, first template, n int) (err error) {
	db, err := store.Open(datadir.Store(h.dir), store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	items := pebbletable.New(db, clock.System{})
	model, err := first.waiting(ctx, items)
	if err != nil {
		return err
	}
	message, err := first.message(ctx, db)
	if err != nil {
		return err
	}
	queues, err := pebblequeue.New(ctx, db, clock.System{}, []queue.Definition{{Name: message.Queue, Visibility: time.Minute}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, queues.Close()) }()
	now := time.Now()
	runs := after(now, n)
	looks := make(map[string]time.Time, n)
	messages := make([]queue.Message, n)
	for i, id := range runs {
		looks[id] = now.Add(nextReconcile * time.Duration(i) / time.Duration(n))
		body := bytes.ReplaceAll(message.Body, []byte(first.run), []byte(id))
		messages[i] = queue.Message{Body: body, Group: message.Group, Delay: queue.MaxDelay}
	}
	h.ids = append(h.ids, runs...)
	if err := multiply(ctx, items, runs, func(id string) (out []table.Item) {
		for _, item := range model {
			item = first.as(id, item)
			if _, live := item.Entry(table.Due); live {
				due := runstate.DueAt(first.org, id, 1, looks[id])
				item[runstate.DuePK], item[runstate.DueSK] = table.V(due.DuePK), table.V(due.DueSK)
			}
			out = append(out, item)
		}
		return out
	}); err != nil {
		return err
	}
	return queues.Send(ctx, message.Queue, messages...)
}

// waiting returns the items of a run whose only task waits, and fails if it
// does not.
func (t template) waiting(ctx context.Context, store table.Table) ([]table.Item, error) {
	run, err := runstate.GetRun(ctx, store, t.org, t.run, time.Now())
	if err != nil {
		return nil, err
	}
	node, err := runstate.LoadNode(ctx, store, t.org, t.run, 0)
	if err != nil {
		return nil, err
	}
	if run.Status != engine.Running || run.DuePK == "" || node == nil || node.Due == 0 {
		return nil, fmt.Errorf("run %s is %s and does not wait", run.ID, run.Status)
	}
	return t.items(ctx, store)
}

// message returns the only message of the run in the queues.
func (t template) message(ctx context.Context, db *store.DB) (out pebblequeue.Kept, err error) {
	found := 0
	damaged := func(fault error) { err = errors.Join(err, fault) }
	fault := pebblequeue.Dump(ctx, db, func(m pebblequeue.Kept) error {
		if strings.Contains(string(m.Body), t.run) {
			out, found = m, found+1
		}
		return nil
	}, damaged)
	if err = errors.Join(err, fault); err == nil && found != 1 {
		err = fmt.Errorf("run %s has %d messages", t.run, found)
	}
	return out, err
}
