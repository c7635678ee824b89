// Package invoke is the [sandbox.Sandbox] driver for AWS Lambda: one function
// for each tier. The functions run in tenant isolation mode, with the workspace
// as TenantId, so that each environment belongs to one workspace, and their
// role has no permissions. A function gets its code, inputs and outputs by
// presigned links, and posts its log, while the task runs, to the internal
// route [Config.LogURL] with a token of the attempt.
//
// Log events thus take another way than the response. The runner posts the last
// of them before it responds, and the route stores events before it
// acknowledges them. The log is therefore complete when Run returns, as the
// port requires, although log is never called.
//
// Lambda cannot end an invocation. When ctx ends, Run returns at once; the
// task's process is killed when the runner next asks the route, at most 5 s
// later, and learns that the attempt is over.
package invoke

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"millrace/shared/platform/clock"
	"millrace/shared/run/sandbox"
	"millrace/shared/run/sandbox/ticket"
	"millrace/shared/run/tier"
)

// mostTaskSecs is the longest duration of an invocation.
const mostTaskSecs = 900

// MaxPayload is the largest request and response of an invocation, in bytes.
const MaxPayload = 6 << 20

// lag is how much longer than the task a token is valid: the start of a cold
// environment, the download of the artifact, and the upload of a large output.
const lag = 5 * time.Minute

// cancelled is the failure type of a runner that was told to stop. learning is
// how long the owner of the attempt may take to learn of it: a few heartbeats.
const (
	cancelled = "Cancelled"
	learning  = 20 * time.Second
)

// Only the SDK's retryer repeats an invocation, and only one that Lambda
// refused to start: after any other error the task may have run.
const (
	maxAttempts = 5
	maxBackoff  = 5 * time.Second
)

var throttles = []string{"TooManyRequestsException", "ThrottlingException", "Throttling", "EC2ThrottledException"}

// unready are the other error codes of Lambda for having no environment now but
// possibly later. A ServiceException does not tell whether the code started.
var unready = []string{
	"ResourceNotReadyException", "ResourceConflictException", "SnapStartNotReadyException", "SnapStartTimeoutException",
	"EC2UnexpectedException", "ENILimitReachedException", "SubnetIPAddressLimitReachedException",
}

// Config configures the functions to invoke and what is passed to them.
type Config struct {
	// Prefix precedes the tier in the functions' names, e.g.
	// "millrace-prod-sandbox-".
	Prefix string
	// LogURL is the internal route that receives logs.
	LogURL string
	// Key signs the tokens for LogURL. It has at least ticket.MinKey bytes.
	Key []byte
	// AWS loads region, credentials and endpoint on first use.
	AWS   func(ctx context.Context) (aws.Config, error)
	Clock clock.Clock
}

// Sandbox is the driver. Create it with New.
type Sandbox struct {
	cfg Config

	mu     sync.Mutex // guards the client, which is created lazily
	client *lambda.Client
}

var (
	_ sandbox.Sandbox           = (*Sandbox)(nil)
	_ sandbox.IsolationReporter = (*Sandbox)(nil)
	_ sandbox.RuntimeReporter   = (*Sandbox)(nil)
)

// New returns a sandbox. It makes no request.
func New(cfg Config) (*Sandbox, error) {
	switch {
	case cfg.Prefix == "" || cfg.LogURL == "" || cfg.AWS == nil || cfg.Clock == nil:
		return nil, errors.New("invoke: a prefix, a log URL, a configuration and a clock are required")
	case len(cfg.Key) < ticket.MinKey:
		return nil, fmt.Errorf("invoke: the key has %d bytes, %d are required", len(cfg.Key), ticket.MinKey)
	}
	return &Sandbox{cfg: cfg}, nil
}

func (s *Sandbox) connect(ctx context.Context) (*lambda.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		// The client is shared: it must not depend on the first caller's context.
		base, err := s.cfg.AWS(context.WithoutCancel(ctx))
		if err != nil {
			return nil, fmt.Errorf("invoke: %w", err)
		}
		s.client = lambda.NewFromConfig(base, func(o *lambda.Options) {
			o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) {
				o.MaxAttempts, o.MaxBackoff = maxAttempts, maxBackoff
				codes := make(map[string]struct{}, len(throttles))
				for _, code := range throttles {
					codes[code] = struct{}{}
				}
				o.Retryables = []retry.IsErrorRetryable{retry.RetryableErrorCode{Codes: codes}}
			})
		})
	}
	return s.client, nil
}

// Run invokes the function of the request's tier for its workspace.
func (s *Sandbox) Run(ctx context.Context, req sandbox.Request, _ func(sandbox.LogEvent)) (sandbox.Result, error) {
	payload, err := s.payload(ctx, &req)
	if err != nil {
		return sandbox.Result{}, err
	}
	client, err := s.connect(ctx)
	if err != nil {
		return sandbox.Result{}, fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
	}
	out, err := client.Invoke(ctx, &lambda.InvokeInput{
		FunctionName: aws.String(s.cfg.Prefix + req.Tier), TenantId: &req.Workspace,
		InvocationType: types.InvocationTypeRequestResponse, Payload: payload,
	})
	switch {
	case ctx.Err() != nil:
		return sandbox.Result{}, context.Cause(ctx)
	case err != nil:
		return sandbox.Result{}, refused(err)
	case out.FunctionError != nil:
		return crashed(out.Payload, req.Tier)
	}
	result, took, err := decode(out.Payload, req.Tier)
	if took > 0 && req.Begin != nil {
		req.Begin(took)
	}
	if err == nil && result.Failure != nil && result.Failure.Type == cancelled {
		return sandbox.Result{}, s.stopped(ctx)
	}
	return result, err
}

// stopped returns the error of Run for a task that the route told to stop. The
// owner of ctx is about to learn of it too and will cancel ctx.
func (s *Sandbox) stopped(ctx context.Context) error {
	wait := time.NewTimer(learning)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-wait.C:
		return errors.New("the sandbox was told to stop the task")
	}
}

// Isolation implements sandbox.IsolationReporter.
func (s *Sandbox) Isolation(context.Context) (sandbox.Isolation, error) {
	return sandbox.Isolation{
		Level:  sandbox.IsolatedEnvironment,
		Detail: "A Lambda environment for each workspace, whose role permits nothing.",
	}, nil
}

// Runtime implements sandbox.RuntimeReporter.
func (s *Sandbox) Runtime(context.Context) (sandbox.Runtime, error) {
	return sandbox.LambdaRuntime, nil
}

// Close does nothing: the environments belong to Lambda.
func (s *Sandbox) Close() error { return nil }

// event is the input of runner/cloud.py.
type event struct {
	*sandbox.Request
	Inputs      map[string]input `json:"inputs,omitempty"`
	TimeoutSecs float64          `json:"timeout_secs"`
	LimitSecs   float64          `json:"limit_secs,omitempty"` // when the response is due
	OutputURL   string           `json:"output_url,omitempty"`
	Artifact    artifact         `json:"artifact"`
	LogURL      string           `json:"log_url"`
	Token       string           `json:"token"`
}

type artifact struct {
	Hash string `json:"hash"`
	URL  string `json:"url"`
}

type input struct {
	Value json.RawMessage `json:"value,omitempty"`
	URL   string          `json:"url,omitempty"`
}

// links are the URLs in an event.
type links struct {
	artifact, output string
	inputs           map[string]input
}

func linksOf(ctx context.Context, req *sandbox.Request) (l links, err error) {
	if l.artifact, err = req.Artifact.URL(ctx); err != nil {
		return l, err
	}
	if req.OutputURL != nil {
		if l.output, err = req.OutputURL(ctx); err != nil {
			return l, err
		}
	}
	l.inputs = make(map[string]input, len(req.Inputs))
	for name, given := range req.Inputs {
		in := input{Value: given.Value}
		if given.URL != nil {
			if in.URL, err = given.URL(ctx); err != nil {
				return l, err
			}
		}
		l.inputs[name] = in
	}
	return l, nil
}

func (s *Sandbox) payload(ctx context.Context, req *sandbox.Request) ([]byte, error) {
	timeout := req.Timeout
	if timeout == 0 {
		timeout = sandbox.DefaultTimeout
	}
	node, err := nodeOf(req)
	if err != nil {
		return nil, err
	}
	urls, err := linksOf(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
	}
	limit := float64(0)
	if until, limited := ctx.Deadline(); limited {
		limit = max(time.Until(until).Seconds(), 1)
	}
	data, err := json.Marshal(event{
		LimitSecs: limit,
		Request:   req, Inputs: urls.inputs, TimeoutSecs: timeout.Seconds(), OutputURL: urls.output,
		Artifact: artifact{Hash: req.Artifact.Hash, URL: urls.artifact}, LogURL: s.cfg.LogURL,
		Token: ticket.Sign(s.cfg.Key, ticket.Attempt{
			Org: req.Workspace, Run: req.RunID, Node: node, Number: req.Attempt, Task: req.TaskName,
			MapIndex: req.MapIndex, Expires: s.cfg.Clock.Now().Add(sandbox.ImportTimeout + timeout + lag).Unix(),
		}),
	})
	if err != nil {
		return nil, fmt.Errorf("invoke: request: %w", err)
	}
	if len(data) > MaxPayload {
		return nil, fmt.Errorf("the inputs of the task make a request of %d bytes, %d fit", len(data), MaxPayload)
	}
	return data, nil
}

// nodeOf parses the node from the id of the attempt: run, node, attempt.
func nodeOf(req *sandbox.Request) (int, error) {
	rest, own := strings.CutPrefix(req.TaskRunID, req.RunID+"-")
	number, _, found := strings.Cut(rest, "-")
	node, err := strconv.Atoi(number)
	if !own || !found || err != nil {
		return 0, fmt.Errorf("invoke: %q is no attempt of run %s", req.TaskRunID, req.RunID)
	}
	return node, nil
}

// refused returns the error of an invocation that was not made or got no
// response, without the request, which contains links and secrets. It wraps
// sandbox.ErrUnavailable only if the code cannot have started, and
// sandbox.ErrLost if it may have.
func refused(err error) error {
	status := 0
	if e, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		status = e.HTTPStatusCode()
	}
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		switch {
		case status == http.StatusTooManyRequests || slices.Contains(throttles, e.ErrorCode()) || slices.Contains(unready, e.ErrorCode()):
			return fmt.Errorf("%w: %s: %s", sandbox.ErrUnavailable, e.ErrorCode(), e.ErrorMessage())
		case status >= http.StatusInternalServerError:
			return fmt.Errorf("%w: %s: %s", sandbox.ErrLost, e.ErrorCode(), e.ErrorMessage())
		}
		return fmt.Errorf("the sandbox was not invoked: %s: %s", e.ErrorCode(), e.ErrorMessage())
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" { // no bytes were sent
		return fmt.Errorf("%w: %w", sandbox.ErrUnavailable, e)
	}
	return fmt.Errorf("%w: %w", sandbox.ErrLost, err)
}

// crashed is what Lambda answers in place of a function that failed. It kills one
// that goes over its memory.
func crashed(payload []byte, tier string) (sandbox.Result, error) {
	var fault struct {
		Type    string `json:"errorType"`
		Message string `json:"errorMessage"`
	}
	if json.Unmarshal(payload, &fault) != nil || fault.Type+fault.Message == "" {
		return sandbox.Result{}, errors.New("the sandbox failed")
	}
	if strings.Contains(fault.Message, "signal: killed") || fault.Type == "Runtime.OutOfMemory" {
		return outOfMemory(tier), nil
	}
	return sandbox.Result{}, fmt.Errorf("the sandbox failed: %s: %s", fault.Type, fault.Message)
}

// outOfMemory is the result of a task that went over the memory of its tier, in the
// words of the embedded server.
func outOfMemory(name string) sandbox.Result {
	of := func(t tier.Tier) sandbox.Memory {
		return sandbox.Memory{Tier: string(t), Bytes: int64(t.MemoryMB()) << 20}
	}
	has := tier.Tier(name)
	return sandbox.Result{Failure: &sandbox.Failure{Type: sandbox.TaskFailedError, Message: sandbox.OutOfMemory(0, of(has), of(has.Next()))}}
}

// decode reads the runner's answer, and how long the task's function took, 0 if it
// did not begin.
func decode(payload []byte, tier string) (result sandbox.Result, took time.Duration, err error) {
	var answer struct {
		Output      json.RawMessage  `json:"output"`
		OutputRef   bool             `json:"output_ref"`
		OutputBytes int64            `json:"output_bytes"`
		Failure     *sandbox.Failure `json:"failure"`
		Error       string           `json:"error"`
		Unstarted   bool             `json:"unstarted"`
		OutOfMemory bool             `json:"out_of_memory"`
		TaskSecs    float64          `json:"task_secs"`
	}
	if err := json.Unmarshal(payload, &answer); err != nil {
		return sandbox.Result{}, 0, errors.New("the sandbox's answer is not readable")
	}
	took = time.Duration(min(max(answer.TaskSecs, 0), mostTaskSecs) * float64(time.Second))
	switch {
	case answer.OutOfMemory:
		return outOfMemory(tier), took, nil
	case answer.Unstarted:
		return sandbox.Result{}, took, fmt.Errorf("%w: %s", sandbox.ErrUnavailable, answer.Error)
	case answer.Error != "":
		return sandbox.Result{}, took, errors.New(answer.Error)
	case answer.Failure != nil:
		return sandbox.Result{Failure: answer.Failure}, took, nil
	case answer.OutputRef:
		return sandbox.Result{Uploaded: true, OutputBytes: answer.OutputBytes}, took, nil
	case answer.Output == nil:
		return sandbox.Result{}, took, errors.New("the sandbox's answer has no output")
	}
	if fault, ok := errors.AsType[sandbox.OutputError](sandbox.CheckOutput(answer.Output)); ok {
		return sandbox.Result{Failure: &sandbox.Failure{Type: sandbox.ArtifactSerializationError, Message: fault.Error()}}, took, nil
	}
	return sandbox.Result{Output: answer.Output, OutputBytes: answer.OutputBytes}, took, nil
}
