package export

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"millrace/localstack/client"
)

// pageSize is the number of runs of a page, the most that the API gives.
const pageSize = 500

// listed is a run in a list.
type listed struct {
	ID      string    `json:"run_id"`
	Status  string    `json:"status"`
	Created time.Time `json:"created_at"`
}

func (l listed) ended() bool { return (&client.Run{Status: l.Status}).Ended() }

// lister reads a list, the newest runs first. Pages continue by time, because the
// API has no tokens here: runs of the last instant are read twice and dropped once.
type lister struct {
	api   *client.Client
	query url.Values
	until time.Time           // of the next page; zero for the newest runs
	seen  map[string]struct{} // ids of that instant
	ended bool
}

// newLister lists the runs of a selection, of any status.
func newLister(api *client.Client, s Selection, since, until time.Time) lister {
	query := url.Values{}
	for name, value := range map[string]string{"flow_name": s.Flow, "environment": s.Environment, "deployment": s.Deployment} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if !since.IsZero() {
		query.Set("since", stamp(since))
	}
	return lister{api: api, query: query, until: until}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// before makes the list go on before a time.
func (l *lister) before(at time.Time) {
	l.until, l.seen = at.Add(-time.Millisecond), nil // times have milliseconds
	since, err := time.Parse(time.RFC3339Nano, l.query.Get("since"))
	l.ended = err == nil && l.until.Before(since)
}

// next reads a page, which may be empty.
func (l *lister) next(ctx context.Context) ([]listed, error) {
	page, until, err := l.read(ctx, l.query, pageSize)
	if err != nil {
		return nil, err
	}
	full := len(page) == pageSize
	if full && page[0].Created.Equal(page[pageSize-1].Created) {
		return l.instant(ctx, page[0].Created)
	}
	switch {
	case full:
		until = page[pageSize-1].Created
	case until.IsZero():
		l.ended = true
	}
	seen := map[string]struct{}{}
	for _, run := range page {
		if run.Created.Equal(until) {
			seen[run.ID] = struct{}{}
		}
	}
	page = slices.DeleteFunc(page, func(run listed) bool { _, again := l.seen[run.ID]; return again })
	l.until, l.seen = until, seen
	return page, nil
}

// instant reads the runs of one instant, which are more than a page.
func (l *lister) instant(ctx context.Context, at time.Time) ([]listed, error) {
	query := url.Values{}
	for name, values := range l.query {
		query[name] = values
	}
	query.Set("since", stamp(at))
	l.until = at
	page, _, err := l.read(ctx, query, 0)
	if err != nil {
		return nil, err
	}
	page = slices.DeleteFunc(page, func(run listed) bool { _, again := l.seen[run.ID]; return again })
	l.before(at)
	return page, nil
}

// read reads a page of at most limit runs, 0 for all, and where the server says that
// it goes on.
func (l *lister) read(ctx context.Context, query url.Values, limit int) ([]listed, time.Time, error) {
	query.Del("limit")
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	if !l.until.IsZero() {
		query.Set("until", stamp(l.until))
	}
	var page struct {
		Items []json.RawMessage `json:"items"`
		Until time.Time         `json:"next_until"`
	}
	if err := l.api.Do(ctx, http.MethodGet, "/runs?"+query.Encode(), nil, &page); err != nil {
		return nil, time.Time{}, err
	}
	runs := make([]listed, len(page.Items))
	for i, item := range page.Items {
		if err := json.Unmarshal(item, &runs[i]); err != nil {
			return nil, time.Time{}, err
		}
	}
	return runs, page.Until, nil
}
