package bench

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"millrace/functions/catalog"
	"millrace/localstack/runtimeapi"
)

// Budgets of the deployed program.
const (
	pollTime   = 20 * time.Millisecond
	deployable = 20 << 20 // bytes
)

// started are the functions whose start is timed: the one with the most
// operations, and the one with the most drivers.
var started = []string{"runs", "taskworker"}

const deployedRow = "bootstrap, arm64, stripped"

func pollRow(function string) string { return "bootstrap to first poll, " + function }

// bootstrapGroups returns the groups that measure the given programs.
func bootstrapGroups(program, deployed string) []group {
	var out []group
	if program != "" {
		for _, function := range started {
			out = append(out, group{[]string{pollRow(function)}, func(ctx context.Context, b *bench) error {
				return b.polls(ctx, function)
			}})
		}
	}
	if deployed != "" {
		out = append(out, group{[]string{deployedRow}, func(_ context.Context, b *bench) error {
			info, err := os.Stat(deployed)
			if err != nil {
				return err
			}
			mb := fmt.Sprintf("%.1f MB", float64(info.Size())/(1<<20))
			b.show(row{name: deployedRow, median: mb}.in(size(deployable), info.Size() <= deployable))
			return nil
		}})
	}
	return out
}

// polls times starts of a function, from the start of its process to its first
// request for an event.
func (b *bench) polls(ctx context.Context, function string) error {
	var times samples
	for range 21 {
		took, err := b.poll(ctx, function)
		if err != nil {
			return err
		}
		times = append(times, took)
	}
	times = times[1:] // the first start reads the program from disk
	b.show(timed(pollRow(function), times).in(span(pollTime), times.median() <= pollTime))
	return nil
}

func (b *bench) poll(ctx context.Context, function string) (time.Duration, error) {
	api, err := runtimeapi.Start()
	if err != nil {
		return 0, err
	}
	defer func() { _ = api.Close() }() // its process has ended
	cmd := exec.CommandContext(ctx, b.Bootstrap)
	if cmd.Env, err = settings(api.Address(), function); err != nil {
		return 0, err
	}
	cmd.Dir = b.dir
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}()
	select {
	case <-api.Polled():
		return time.Since(begin), nil
	case fault := <-api.InitFaults():
		return 0, fault
	case <-time.After(20 * time.Second):
		return 0, errors.New("no poll within 20 s")
	}
}

// settings returns the environment of a function. It contacts none of the named
// services before its first event.
func settings(api, function string) ([]string, error) {
	spec, found := catalog.Find(catalog.All(), function)
	if !found {
		return nil, fmt.Errorf("there is no function %s", function)
	}
	secret := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	out := []string{
		"AWS_LAMBDA_RUNTIME_API=" + api, "_HANDLER=" + function, "AWS_REGION=us-east-1",
		"MILLRACE_TABLE=bench", "MILLRACE_BUCKET=bench", "MILLRACE_BUS=bench", "MILLRACE_VAULT_KEY_ARN=arn:aws:kms:eu-central-1:123456789012:key/bench", "MILLRACE_QUEUE_PREFIX=bench-",
		"MILLRACE_CURSOR_KEY=" + secret, "MILLRACE_ATTEMPT_KEY=" + secret,
		"MILLRACE_SANDBOX_PREFIX=bench-",
	}
	for name, value := range spec.Collector() {
		out = append(out, name+"="+value)
	}
	return out, nil
}
