package health

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"millrace/events"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/web/fn"
)

// checkTimeout is the time-out of a component's check.
const checkTimeout = 2 * time.Second

// service builds the report.
type service struct {
	version string
	clock   clock.Clock
	log     *slog.Logger
	secret  string // of the operator; empty: none
	checks  []check

	mu   sync.Mutex // guards last
	last *probing
}

// How long the result of the checks is used for further requests: checks cost
// requests, and anybody may ask. One that found a fault is soon made again.
const (
	keepHealthy = 5 * time.Second
	keepFaulty  = time.Second
)

// probing is one run of the checks, for all requests that come meanwhile, and a
// while after.
type probing struct {
	done   chan struct{} // closed when the report is complete
	report HealthCheckResponse
	ended  time.Time
}

// usable reports whether a probing answers a request.
func (p *probing) usable(now time.Time) bool {
	select {
	case <-p.done:
	default:
		return true // it is under way
	}
	keep := keepHealthy
	if p.report.Status == unhealthy {
		keep = keepFaulty
	}
	age := now.Sub(p.ended)
	return age >= 0 && age < keep
}

// check is the check of one component. probe returns a detail about a working
// component, for the operator.
type check struct {
	name  string
	probe func(context.Context) (string, error)
}

// operational is the detail for other callers. The backlog concerns only the
// workspaces.
const operational = "operational"

// errNotConfigured is returned by a probe if there is nothing to check.
var errNotConfigured = errors.New("not configured")

func newService(d fn.Deps) *service {
	s := &service{version: cmp.Or(d.Config.Version, "dev"), clock: d.Clock, log: d.Log, secret: d.Config.Operator}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.checks = []check{
		{"key_value_table", func(ctx context.Context) (string, error) {
			if d.Table == nil {
				return "", errNotConfigured
			}
			return operational, d.Table.Check(ctx)
		}},
		{"object_store", func(ctx context.Context) (string, error) {
			if d.Blob == nil {
				return "", errNotConfigured
			}
			return operational, d.Blob.Check(ctx)
		}},
		{"message_queue", func(ctx context.Context) (string, error) {
			if d.Queues == nil {
				return "", errNotConfigured
			}
			return queues(ctx, d.Queues)
		}},
	}
	return s
}

// operates reports whether an Authorization header is the operator's.
func (s *service) operates(authorization string) bool {
	bearer, ok := strings.CutPrefix(authorization, "Bearer ")
	return ok && s.secret != "" && subtle.ConstantTimeCompare([]byte(bearer), []byte(s.secret)) == 1
}

// health returns the state of the service.
func (s *service) health(ctx context.Context, in *reportIn) (HealthCheckResponse, error) {
	p := s.probe(ctx)
	select {
	case <-p.done:
	case <-ctx.Done():
		return HealthCheckResponse{}, ctx.Err()
	}
	r := p.report
	if !s.operates(in.Authorization) {
		r.Components = slices.Clone(r.Components)
		for i, c := range r.Components {
			if c.Status == healthy {
				r.Components[i].Message = operational
			}
		}
	}
	return r, nil
}

// probe returns the checks that answer a request: the last ones, if they are
// under way or recent.
func (s *service) probe(ctx context.Context) *probing {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil && s.last.usable(s.clock.Now()) {
		return s.last
	}
	p := &probing{done: make(chan struct{})}
	s.last = p
	go func() {
		defer close(p.done)
		p.report = s.report(context.WithoutCancel(ctx)) // others wait for it, too
		p.ended = s.clock.Now()
	}()
	return p
}

// report checks all components concurrently, each for at most checkTimeout.
func (s *service) report(ctx context.Context) HealthCheckResponse {
	r := HealthCheckResponse{
		Status: healthy, Version: s.version,
		Components: make([]ComponentHealth, len(s.checks)), Timestamp: clock.Format(s.clock.Now()),
	}
	var wg sync.WaitGroup
	for i, c := range s.checks {
		wg.Go(func() { r.Components[i] = s.ask(ctx, c) })
	}
	wg.Wait()
	for _, c := range r.Components {
		r.Status = worse(r.Status, c.Status)
	}
	return r
}

func worse(a, b status) status {
	rank := map[status]int{healthy: 0, degraded: 1, unhealthy: 2}
	if rank[b] > rank[a] {
		return b
	}
	return a
}

// ask checks one component with a time-out, even if the driver ignores its
// context. The report is public, so the cause of a failure is only logged.
func (s *service) ask(ctx context.Context, c check) ComponentHealth {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	type answer struct {
		message string
		err     error
	}
	answers := make(chan answer, 1)
	go func() {
		message, err := c.probe(ctx)
		answers <- answer{message, err}
	}()
	var a answer
	select {
	case a = <-answers:
	case <-ctx.Done():
		a.err = ctx.Err()
	}
	known, _ := errors.AsType[*errs.Error](a.err)
	out := ComponentHealth{Name: c.name, Status: healthy, Message: a.message}
	switch {
	case a.err == nil:
		return out
	case isNotConfigured(a.err):
		out.Status, out.Message = degraded, "not configured"
	case errors.Is(a.err, context.DeadlineExceeded):
		out.Status, out.Message = unhealthy, fmt.Sprintf("no answer within %v", checkTimeout)
	case known != nil && known.Code == errs.Unavailable: // the message is for users
		out.Status, out.Message = unhealthy, known.Message
	default:
		out.Status, out.Message = unhealthy, "not reachable or failing"
	}
	s.log.WarnContext(ctx, "health check", "component", c.name, "status", string(out.Status), "error", a.err)
	return out
}

func isNotConfigured(err error) bool {
	for _, target := range []error{
		errNotConfigured, table.ErrNotConfigured, blob.ErrNotConfigured, queue.ErrNotConfigured, queue.ErrUnknownQueue,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// queues checks every queue, and returns how long tasks wait and how many dead
// letters there are.
func queues(ctx context.Context, q queue.Queues) (string, error) {
	names := events.AllQueues()
	stats, dead, failures := make([]queue.Stats, len(names)), make([]int, len(names)), make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() {
			var err error
			if stats[i], err = q.Stats(ctx, name); err == nil {
				dead[i], err = q.Depth(ctx, queue.Dead(name))
			}
			if err != nil {
				failures[i] = fmt.Errorf("queue %s: %w", name, err)
			}
		})
	}
	wg.Wait()
	if err := worst(failures); err != nil {
		return "", err
	}
	var waiting, given int
	var oldest time.Duration
	for i, s := range stats {
		given += dead[i]
		if names[i] == events.Runs { // its messages are not tasks
			continue
		}
		waiting += s.Visible
		oldest = max(oldest, s.Oldest)
	}
	text := operational + "; no task is waiting"
	if waiting > 0 {
		text = fmt.Sprintf("%s; tasks waiting: %d", operational, waiting)
	}
	if waiting > 0 && oldest > 0 { // not every driver knows
		text += fmt.Sprintf(", the oldest for %v", oldest.Round(time.Second))
	}
	if given > 0 {
		text += fmt.Sprintf("; messages given up (dead letters): %d", given)
	}
	return text, nil
}

// worst prefers a failure over a queue that is not configured.
func worst(failures []error) error {
	var found error
	for _, err := range failures {
		if err != nil && (found == nil || isNotConfigured(found)) {
			found = err
		}
	}
	return found
}
