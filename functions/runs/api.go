package runs

import (
	"context"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"millrace/shared/account/tenant"
	"millrace/shared/web/httpapi"
)

type runPath struct {
	RunID string `path:"run_id" maxLength:"128"`
}

// nothing is the body of an operation that takes none: absent, null or {}.
type nothing struct{}

type runAction struct {
	RunID string `path:"run_id" maxLength:"128"`
	Body  *nothing
}

type createInput struct {
	Key  string `header:"Idempotency-Key" maxLength:"255" doc:"For 24 hours, the same key with the same body gives the first answer again; per workspace and flow"`
	Body RunRequest
}

type listQuery struct {
	FlowName    string   `query:"flow_name" pattern:"^([A-Za-z0-9][A-Za-z0-9._-]{0,127})?$"`
	Environment string   `query:"environment" pattern:"^([A-Za-z0-9][A-Za-z0-9._-]{0,127})?$"`
	Since       string   `query:"since" maxLength:"64" doc:"Only runs created then or later; an ISO 8601 timestamp, in UTC unless it names an offset"`
	Limit       optional `query:"limit" doc:"Clamped to 1 to 500; absent: all runs, streamed"`
}

// optional is an integer parameter that may be absent.
type optional struct {
	Value int
	Set   bool
}

// Schema describes it as an integer.
func (optional) Schema(r huma.Registry) *huma.Schema {
	return huma.SchemaFromType(r, reflect.TypeFor[int]())
}

// Receiver is where huma puts the value.
func (o *optional) Receiver() reflect.Value { return reflect.ValueOf(o).Elem().Field(0) }

// OnParamSet notes that there is one.
func (o *optional) OnParamSet(set bool, _ any) { o.Set = set }

type logsQuery struct {
	RunID     string `path:"run_id" maxLength:"128"`
	Limit     int    `query:"limit" minimum:"1" default:"500" doc:"At most 10,000 events a page, however many are asked for; a page ends at 4 MB, too"`
	NextToken string `query:"next_token" maxLength:"4096"`
}

type compareQuery struct {
	RunA string `query:"run_a" required:"true" maxLength:"128"`
	RunB string `query:"run_b" required:"true" maxLength:"128"`
}

// RunList is a list of runs.
type RunList struct {
	Items []RunRecord `json:"items"`
}

type output[T any] struct{ Body T }

// answer makes a handler's output of a service's result.
func answer[T any](body T, err error) (*output[T], error) {
	if err != nil {
		return nil, err
	}
	return &output[T]{Body: body}, nil
}

const (
	logsID = "runs-logs"
	one    = "/runs/{run_id}"
)

func (s *service) reads(api *httpapi.API) {
	reads := tenant.Needs(tenant.RunsRead)
	httpapi.Register(api, httpapi.Operation{
		ID: "runs-list", Method: http.MethodGet, Path: "/runs", Domain: name, Access: reads,
		Stream: true, Output: reflect.TypeFor[RunList](),
		Summary:     "List runs",
		Description: "Newest first. Without limit the list has every run and is streamed.",
	}, s.list)
	httpapi.Register(api, httpapi.Operation{
		ID: "runs-compare", Method: http.MethodGet, Path: "/runs/compare", Domain: name, Access: reads,
		Summary: "Compare two runs",
		Description: "Deltas are B minus A in milliseconds: positive when run B took longer, null where a time is missing. " +
			"Tasks are matched by name and shown by their latest attempt, a mapped task as a whole. Costs are null where they are not known.",
		Errors: []int{404},
	}, func(ctx context.Context, in *compareQuery) (*output[RunComparison], error) {
		return answer(s.compare(ctx, in.RunA, in.RunB))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: "runs-get", Method: http.MethodGet, Path: one, Domain: name, Access: reads,
		Summary: "Get a run with its task attempts",
		Description: "Outputs are inlined up to 1 MB in all; larger ones, and those beyond that, are given by output_uri. " +
			"A mapped task whose list was evaluated is shown by its instances alone.",
	}, func(ctx context.Context, in *runPath) (*output[*RunDetail], error) {
		return answer(s.get(ctx, in.RunID))
	})
	httpapi.Register(api, httpapi.Operation{
		ID: logsID, Method: http.MethodGet, Path: one + "/logs", Domain: name, Access: reads,
		Summary: "Read a page of a run's log",
		Description: "From its beginning on, in order. While the run is live there is always a next_token: the page may be empty and the next one not. " +
			"A token holds across the switch to the archive.",
		Errors: []int{400},
	}, func(ctx context.Context, in *logsQuery) (*output[LogPage], error) {
		return answer(s.page(ctx, in))
	})
}

func (s *service) mutations(api *httpapi.API) {
	triggers := tenant.Needs(tenant.RunsTrigger)
	httpapi.Register(api, httpapi.Operation{
		ID: "runs-create", Method: http.MethodPost, Path: "/runs", Domain: name, Access: triggers,
		Stream: true, Output: reflect.TypeFor[RunResponse](),
		Summary: "Start a run",
		Description: "Of a deployment, or of flow_name and flow_version: without either it is 400. Answers at once with the run QUEUED. " +
			"With execute the answer begins when it is accepted, is kept open with white space, and is the run's detail, as GET /runs/{run_id} gives it, " +
			"once the run has ended, or as it is after 14.5 minutes. A client that leaves does not stop the run. " +
			"Parameters that take too much work to check against the flow's schema, or whose defaults grow beyond 1 MB, are 422.\n\n" +
			"Without an Idempotency-Key a repeated request makes another run. A key that was used for another body is 422; one whose first request is still being accepted, 409.",
		Errors: []int{400, 404, 409},
	}, s.create)
	httpapi.Register(api, httpapi.Operation{
		ID: "runs-cancel", Method: http.MethodPost, Path: one + "/cancel", Domain: name, Access: tenant.Needs(tenant.RunsCancel), Reclaims: true,
		Summary: "Cancel a run",
		Description: "A queued run is cancelled at once; of a running one the tasks are stopped, or it ends between two tasks. What tasks have done is not undone. " +
			"May be repeated, and then changes nothing; a run that has ended otherwise is 400.",
		Errors: []int{400},
	}, func(ctx context.Context, in *runAction) (*output[CancelResponse], error) {
		return answer(s.cancel(ctx, in.RunID))
	})
	for _, r := range []struct {
		id, path, summary, text string
		partial                 bool
	}{
		{"runs-retry", "/retry", "Retry a run", "Makes a new run of the same flow version with the same parameters, environment and tier. Takes no body.", false},
		{"runs-retry-from-failed", "/retry-from-failed", "Retry a run from its failed tasks",
			"As retry, but what succeeded is planned to be reused: a task none of whose ancestors runs again, and instances of a mapped task if its list turns out the same. " +
				"If nothing succeeded it is a full retry.", true},
	} {
		httpapi.Register(api, httpapi.Operation{
			ID: r.id, Method: http.MethodPost, Path: one + r.path, Domain: name, Access: triggers, Summary: r.summary,
			Description: r.text + " A run that has not ended is 409, and so is one whose flow version was registered anew with other content.",
			Errors:      []int{409},
		}, func(ctx context.Context, in *runAction) (*output[RetryResponse], error) {
			return answer(s.retry(ctx, in.RunID, r.partial))
		})
	}
}
