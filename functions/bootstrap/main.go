// Command bootstrap is the program that every Lambda function of a deployment
// runs (provided.al2023, built with -tags lambda.norpc). It builds the catalog
// function named by _HANDLER, and only that one, with the dependencies in its
// spec, and takes events from the Lambda Runtime API. settings.go describes its
// environment.
//
// Before the first event it contacts nothing but Secrets Manager, for a
// function that needs a secret: clients are created on first use, once for the
// process.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"millrace/functions/catalog"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/telemetry"
	"millrace/shared/web/fn"
)

// version is set by the linker.
var version = "dev"

func main() {
	slog.SetDefault(telemetry.NewLogger(os.Stdout, telemetry.JSON, slog.LevelInfo)) // for code without a logger of its own
	build, err := start(os.Getenv, append(catalog.All(), catalog.Optional()...))
	if err != nil {
		logFailedStart(os.Getenv("_HANDLER"), err)
		reportInit(os.Getenv("AWS_LAMBDA_RUNTIME_API"), err)
		os.Exit(1)
	}
	build.setDefaultLoggers()
	lambda.StartWithOptions(build.handler, build.options...)
}

// started is a function that is ready for events.
type started struct {
	handler           any // as accepted by package lambda
	options           []lambda.Option
	setDefaultLoggers func() // sets the process's default loggers
}

// errSettings means that the environment is invalid.
var errSettings = errors.New("settings")

// start builds the function named by _HANDLER. Errors: errSettings, wrapped
// with the reason.
func start(getenv func(string) string, specs []fn.Spec) (started, error) {
	name := getenv("_HANDLER")
	spec, found := catalog.Find(specs, name)
	if !found {
		return started{}, fmt.Errorf("%w: _HANDLER is %q, not one of %s", errSettings, name, strings.Join(names(specs), ", "))
	}
	env := secrets{getenv: getenv, read: readSecret, clock: clock.System{}}
	cfg, err := readSettings(env.get, spec)
	if err != nil {
		return started{}, fmt.Errorf("%w of %s: %w", errSettings, name, errors.Join(append(env.faults, err)...))
	}
	cfg.CursorKeys, cfg.AttemptKeys = env.rotating(envCursorKey, cfg.CursorKeys), env.rotating(envAttemptKey, cfg.AttemptKeys)
	cfg.APIKey = env.late(cfg.apiKey)
	return newPlatform(cfg, spec).start()
}

func names(specs []fn.Spec) []string {
	out := make([]string, len(specs))
	for i, s := range specs {
		out[i] = s.Name
	}
	slices.Sort(out)
	return out
}

// reportInit reports to the Runtime API why the function cannot start. The
// process ends in any case.
func reportInit(api string, cause error) {
	if api == "" {
		return
	}
	kind := "Runtime.InitError"
	if errors.Is(cause, errSettings) {
		kind = "Runtime.InvalidSettings"
	}
	body, err := json.Marshal(map[string]any{"errorMessage": cause.Error(), "errorType": kind, "stackTrace": []string{}})
	if err != nil {
		return
	}
	req, err := http.NewRequest(http.MethodPost, "http://"+api+"/2018-06-01/runtime/init/error", bytes.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Lambda-Runtime-Function-Error-Type", kind)
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{}} // no proxy: the API is on this machine
	if res, err := client.Do(req); err == nil {
		_ = res.Body.Close()
	}
}
