// Package invoke is the [sandbox.Dispatcher] driver for AWS Lambda: one function
// for each tier. The functions run in tenant isolation mode, with the workspace
// as TenantId, so that each environment belongs to one workspace, and their
// role has no permissions.
//
// An invocation is asynchronous, and its event contains only the token of the
// attempt: it may wait in Lambda's own queue, while the account or the workspace
// runs as many functions as it may, for longer than links are valid. The runner
// gets the request, links and secrets included, when it has begun the attempt.
// Lambda delivers events at least once; of two runners with one token, one
// begins.
package invoke

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/smithy-go"

	"millrace/shared/platform/errs"
	"millrace/shared/platform/keyring"
	"millrace/shared/run/sandbox"
	"millrace/shared/run/sandbox/ticket"
	"millrace/shared/run/tier"
)

// mostTaskSecs is the longest duration of an invocation.
const mostTaskSecs = 900

// Alias is the alias of the functions to invoke: the version that is deployed.
const Alias = "live"

// reserve is how much of an invocation is for fetching the artifact, the upload
// of the output and the result.
const reserve = 25 * time.Second

// importing returns the import timeout of a task: all of it, unless the rest of
// the invocation is the task's.
func importing(timeout time.Duration) time.Duration {
	return max(min(sandbox.ImportTimeout, mostTaskSecs*time.Second-reserve-timeout), time.Second)
}

// MaxMessage is the largest message to a runner, in bytes as a JSON string: that
// is how it is within the response of a function, which has 6 MB at most.
const MaxMessage = 6<<20 - 16<<10

// quoted returns the size of a JSON text as a JSON string.
func quoted(text []byte) int {
	return len(text) + bytes.Count(text, []byte{'"'}) + bytes.Count(text, []byte{'\\'})
}

// An invocation may be repeated, whatever became of it: one runner begins.
const (
	maxAttempts = 3
	maxBackoff  = 2 * time.Second
)

// Config configures the functions to invoke and what is passed to them.
type Config struct {
	// Prefix precedes the tier in the functions' names, e.g.
	// "millrace-prod-sandbox-".
	Prefix string
	// Keys sign the tokens of runners. They have at least ticket.MinKey bytes.
	Keys *keyring.Ring
	// AWS loads region, credentials and endpoint on first use.
	AWS func(ctx context.Context) (aws.Config, error)
}

// Sandbox is the driver. Create it with New.
type Sandbox struct {
	Description
	cfg Config

	mu     sync.Mutex // guards the client, which is created lazily
	client *lambda.Client
}

var (
	_ sandbox.Dispatcher        = (*Sandbox)(nil)
	_ sandbox.Sandbox           = Description{}
	_ sandbox.IsolationReporter = Description{}
	_ sandbox.RuntimeReporter   = Description{}
)

// Description is the sandbox for functions that describe it and run no task: it
// needs neither the permission to invoke it nor the key of attempts.
type Description struct{}

// New returns a sandbox. It makes no request.
func New(cfg Config) (*Sandbox, error) {
	switch {
	case cfg.Prefix == "" || cfg.AWS == nil:
		return nil, errors.New("invoke: a prefix and a configuration are required")
	}
	if key := cfg.Keys.Current(context.Background()); len(key) < ticket.MinKey {
		return nil, fmt.Errorf("invoke: the key has %d bytes, %d are required", len(key), ticket.MinKey)
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
			})
		})
	}
	return s.client, nil
}

// event is the input of a function.
type event struct {
	Token string `json:"token"`
}

// Dispatch invokes the function of a tier for an attempt's workspace.
func (s *Sandbox) Dispatch(ctx context.Context, tier string, attempt ticket.Attempt) error {
	client, err := s.connect(ctx)
	if err != nil {
		return err
	}
	payload, err := json.Marshal(event{ticket.Sign(s.cfg.Keys.Current(ctx), attempt)})
	if err != nil {
		return fmt.Errorf("invoke: event: %w", err)
	}
	_, err = client.Invoke(ctx, &lambda.InvokeInput{
		FunctionName: aws.String(s.cfg.Prefix + tier), Qualifier: aws.String(Alias), TenantId: &attempt.Org,
		InvocationType: types.InvocationTypeEvent, Payload: payload,
	})
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		return fmt.Errorf("the sandbox was not started: %s: %s", e.ErrorCode(), e.ErrorMessage())
	}
	if err != nil {
		return fmt.Errorf("the sandbox was not started: %w", err)
	}
	return nil
}

// Isolation implements sandbox.IsolationReporter.
func (Description) Isolation(context.Context) (sandbox.Isolation, error) {
	return sandbox.Isolation{
		Level:  sandbox.IsolatedEnvironment,
		Detail: "A Lambda environment for each workspace, whose role permits nothing.",
	}, nil
}

// Runtime implements sandbox.RuntimeReporter.
func (Description) Runtime(context.Context) (sandbox.Runtime, error) {
	return sandbox.LambdaRuntime, nil
}

// Close does nothing: the environments belong to Lambda.
func (Description) Close() error { return nil }

// message is the request as runner/cloud.py reads it.
type message struct {
	*sandbox.Request
	Inputs      map[string]input `json:"inputs,omitempty"`
	TimeoutSecs float64          `json:"timeout_secs"`
	ImportSecs  float64          `json:"import_timeout_secs"`
	OutputURL   string           `json:"output_url,omitempty"`
	Artifact    artifact         `json:"artifact"`
}

type artifact struct {
	Hash string `json:"hash"`
	URL  string `json:"url"`
}

type input struct {
	Value json.RawMessage `json:"value,omitempty"`
	URL   string          `json:"url,omitempty"`
}

// links are the URLs in a message.
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

// Message implements sandbox.Dispatcher.
func (s *Sandbox) Message(ctx context.Context, req sandbox.Request) (json.RawMessage, error) {
	timeout := req.Timeout
	if timeout == 0 {
		timeout = sandbox.DefaultTimeout
	}
	urls, err := linksOf(ctx, &req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
	}
	// Not json.Marshal: its HTML escapes could make inputs six times as long.
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err = encoder.Encode(message{
		Request: &req, Inputs: urls.inputs, TimeoutSecs: timeout.Seconds(), ImportSecs: importing(timeout).Seconds(),
		OutputURL: urls.output, Artifact: artifact{Hash: req.Artifact.Hash, URL: urls.artifact},
	})
	if err != nil {
		return nil, fmt.Errorf("invoke: message: %w", err)
	}
	data := bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	if size := quoted(data); size > MaxMessage {
		return nil, errs.New(errs.TooLarge, "the inputs of the task make a request of %d bytes, %d fit", size, MaxMessage)
	}
	return data, nil
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

// Answer implements sandbox.Dispatcher.
func (s *Sandbox) Answer(payload json.RawMessage, tier string) (result sandbox.Result, took time.Duration, err error) {
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
