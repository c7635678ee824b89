package export

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/localstack/client"
)

const (
	readers = 8 // runs that are read at once

	// The log of a finished run is completed shortly after it.
	logPatience = 20 * time.Second
	logPoll     = 250 * time.Millisecond
	logPage     = 10_000 // events; the API ends a page at 4 MB, too
)

// read is a run that was read, with the first page of its log.
type read struct {
	detail json.RawMessage
	run    client.Run
	log    client.LogPage
	gone   bool // it has expired meanwhile
	open   bool // its log is not complete
}

// flush adds the pending runs to the part.
func (w *walk) flush(ctx context.Context) error {
	pending := w.pending
	w.pending = nil
	reads := make([]read, len(pending))
	group, within := errgroup.WithContext(ctx)
	for i, run := range pending {
		group.Go(func() (err error) {
			reads[i], err = w.read(within, run.ID)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i := range reads {
		switch r := &reads[i]; {
		case r.gone:
		case r.open:
			w.unfinished++
			w.out.Unfinished++
		default:
			if err := w.add(ctx, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// read reads a run.
func (w *walk) read(ctx context.Context, id string) (r read, err error) {
	err = w.API.Do(ctx, http.MethodGet, "/runs/"+id, nil, &r.detail)
	if missing(err) {
		return read{gone: true}, nil
	}
	if err == nil {
		err = json.Unmarshal(r.detail, &r.run)
	}
	if err != nil || !w.Logs {
		return r, err
	}
	for until := time.Now().Add(logPatience); ; {
		r.log, err = w.API.LogPage(ctx, id, client.LogFilter{Limit: logPage}, "")
		switch {
		case missing(err):
			return read{gone: true}, nil
		case err != nil || r.log.Source == "archive":
			return r, err
		case time.Now().After(until):
			r.open = true
			return r, nil
		}
		select {
		case <-time.After(logPoll):
		case <-ctx.Done():
			return r, ctx.Err()
		}
	}
}

// add writes a run to the part. Its record is written last: the record says that the
// run is exported.
func (w *walk) add(ctx context.Context, r *read) (err error) {
	if w.part == nil {
		if w.part, err = newPart(w.Dir, w.day, w.Selection); err != nil {
			return err
		}
	}
	if err := w.addLog(ctx, r); err != nil {
		return err
	}
	if err := w.addOutputs(ctx, r.run); err != nil {
		return err
	}
	var line bytes.Buffer
	if err := json.Compact(&line, r.detail); err != nil {
		return err
	}
	if err := w.part.runs.line(line.Bytes()); err != nil {
		return err
	}
	if w.part.full() {
		return w.commit()
	}
	return nil
}

func (w *walk) addLog(ctx context.Context, r *read) (err error) {
	if !w.Logs {
		return nil
	}
	page := r.log
	for {
		for _, event := range page.Events {
			if event, err = named(event, r.run.RunID); err != nil {
				return err
			}
			if err := w.part.logs.line(event); err != nil {
				return err
			}
		}
		if page.NextToken == "" {
			return nil
		}
		if page, err = w.API.LogPage(ctx, r.run.RunID, client.LogFilter{Limit: logPage}, page.NextToken); err != nil {
			return err
		}
	}
}

// named returns an event as one line that names its run.
func named(event json.RawMessage, run string) ([]byte, error) {
	var line bytes.Buffer
	if err := json.Compact(&line, event); err != nil {
		return nil, err
	}
	var e struct {
		Run string `json:"run_id"`
	}
	if err := json.Unmarshal(event, &e); err != nil || e.Run != "" {
		return line.Bytes(), err
	}
	return append([]byte(`{"run_id":"`+run+`",`), line.Bytes()[1:]...), nil
}

// addOutputs adds the outputs and the result that the run's record only refers to.
func (w *walk) addOutputs(ctx context.Context, run client.Run) error {
	if !w.Outputs {
		return nil
	}
	for _, t := range run.TaskRuns {
		if t.OutputURI == "" {
			continue
		}
		name, from := t.TaskName, "/runs/"+run.RunID+"/tasks/"+url.PathEscape(t.TaskName)+"/output"
		if t.MapIndex != nil {
			index := strconv.Itoa(*t.MapIndex)
			name, from = name+"["+index+"]", from+"?map_index="+index
		}
		if err := w.addOutput(ctx, run.RunID+"/tasks/"+name+".json", from); err != nil {
			return err
		}
	}
	if run.ResultURI == "" {
		return nil
	}
	return w.addOutput(ctx, run.RunID+"/result.json", "/runs/"+run.RunID+"/result")
}

func (w *walk) addOutput(ctx context.Context, name, from string) error {
	res, err := w.API.Send(ctx, http.MethodGet, from, nil, nil)
	if missing(err) {
		w.out.Lost++
		return nil
	}
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return w.part.outputs.entry(name, res.Body)
}

// missing reports whether the server has not, or no longer, what was asked for.
func missing(err error) bool {
	answer, ok := errors.AsType[*client.Error](err)
	return ok && (answer.Status == http.StatusNotFound || answer.Status == http.StatusGone)
}
