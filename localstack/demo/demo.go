// Package demo demonstrates the service: it starts a server, uploads the
// example flows through the API, runs them, and retries one from where it
// failed. It checks every result, so that it can serve as a test.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"millrace/localstack/client"
	"millrace/localstack/embedded/signin"
	"millrace/localstack/proc"
)

// Options configure the demo.
type Options struct {
	Binary string // the server, millrace
	// Credentials is the credentials file of a running server that may call this
	// machine; "" starts a server.
	Credentials string
	Dir         string // data directory; "" means a temporary one, removed at the end
	Python      string // interpreter; "" means python3 on PATH
	Out         io.Writer
	Live        bool // Out is a terminal: the table is redrawn
}

// demo is one run of the demo.
type demo struct {
	Options
	api  *client.Client
	page *page
}

// Run runs the demo. It returns an error if a result is not as expected.
func Run(ctx context.Context, o Options) (err error) {
	if runtime.GOOS == "windows" && o.Credentials == "" {
		return errors.New("its flows are Python, which the embedded server does not run on Windows")
	}
	d := &demo{Options: o}
	work, err := os.MkdirTemp("", "millrace-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	end, err := d.connect(ctx, work)
	if err != nil {
		return err
	}
	defer func() { err = end(err) }()
	if d.page, err = openPage(); err != nil {
		return err
	}
	defer d.page.Close()
	d.say("%s is the page that the flows call", d.page.URL)

	if err := d.etl(ctx, work); err != nil {
		return fmt.Errorf("etl: %w", err)
	}
	if err := d.flaky(ctx, work); err != nil {
		return fmt.Errorf("flaky: %w", err)
	}
	return nil
}

// connect returns a client of the running server, or starts one. end stops
// that; it takes and returns the demo's error.
func (d *demo) connect(ctx context.Context, work string) (end func(error) error, err error) {
	if d.Credentials != "" {
		data, err := os.ReadFile(d.Credentials)
		if err != nil {
			return nil, err
		}
		var known signin.Credentials
		if err := json.Unmarshal(data, &known); err != nil {
			return nil, fmt.Errorf("%s: %w", d.Credentials, err)
		}
		d.api = &client.Client{BaseURL: known.BaseURL, Token: known.APIKey}
		d.step("Use the server at %s", known.BaseURL)
		return func(err error) error { return err }, nil
	}
	kept := d.Dir != ""
	if !kept {
		d.Dir = filepath.Join(work, "data")
	}
	d.step("Start a server on %s", d.Dir)
	server, err := proc.Serve(ctx, d.Binary, d.Dir, nil, "--allow-loopback", "--python", d.Python)
	if err != nil {
		return nil, err
	}
	d.api = server.Client()
	d.say("%s is healthy after %d ms", d.api.BaseURL, server.Startup.Milliseconds())
	return func(err error) error {
		if stopped := server.Stop(); stopped != nil {
			return errors.Join(err, fmt.Errorf("the server did not stop well: %w", stopped))
		}
		if said := server.Output(); err != nil && said != "" {
			return fmt.Errorf("%w\nthe server wrote:\n%s", err, said)
		}
		if err == nil && kept {
			d.goOn()
		}
		return err
	}, nil
}

// etl deploys and runs the larger example.
func (d *demo) etl(ctx context.Context, work string) error {
	if err := d.deploy(ctx, work, "etl"); err != nil {
		return err
	}
	d.step("Run etl")
	run, err := d.run(ctx, client.RunRequest{Deployment: "etl", Parameters: map[string]any{
		"day": "2026-01-31", "prices_url": d.page.URL + "/prices.json",
	}})
	if err != nil {
		return err
	}
	if err := d.expect(run, "SUCCEEDED", map[string]string{
		"extract": "FAILED SUCCEEDED", "price": strings.TrimSpace(strings.Repeat("SUCCEEDED ", 10)), "escalate": "SKIPPED", "report": "SUCCEEDED",
	}); err != nil {
		return err
	}
	var report string
	if err := json.Unmarshal(run.Task("report")[0].Output, &report); err != nil || !strings.Contains(report, "total: 74") {
		return fmt.Errorf("the report is %q (%w)", report, err)
	}
	d.say("The report, output of the last task:")
	for line := range strings.Lines(report) {
		d.say("    %s", strings.TrimSuffix(line, "\n"))
	}
	return d.log(ctx, run, 14, "order 12 (instance 9): 3")
}

// flaky runs the flow whose page is down, repairs the page, and retries.
func (d *demo) flaky(ctx context.Context, work string) error {
	if err := d.deploy(ctx, work, "flaky"); err != nil {
		return err
	}
	d.step("Run flaky, while the page it reads is down")
	failed, err := d.run(ctx, client.RunRequest{Deployment: "flaky", Parameters: map[string]any{"page_url": d.page.URL + "/channel"}})
	if err != nil {
		return err
	}
	if err := d.expect(failed, "FAILED", map[string]string{"expensive": "SUCCEEDED", "fetch": "FAILED", "publish": "UPSTREAM_FAILED"}); err != nil {
		return err
	}
	d.say("%s", failed.ErrorMessage)

	d.step("The page is up again: retry from what failed")
	d.page.repair()
	retry, err := d.api.RetryFromFailed(ctx, failed.RunID)
	if err != nil {
		return err
	}
	if retry.ParentRunID != failed.RunID || retry.ReusedTaskCount != 2 {
		return fmt.Errorf("the retry reuses %d tasks of run %s, not 2 of %s", retry.ReusedTaskCount, retry.ParentRunID, failed.RunID)
	}
	run, err := d.watch(ctx, retry.RunID)
	if err != nil {
		return err
	}
	if err := d.expect(run, "SUCCEEDED", map[string]string{
		"prepare": "REUSED", "expensive": "REUSED", "fetch": "SUCCEEDED", "publish": "SUCCEEDED",
	}); err != nil {
		return err
	}
	d.say("Reused, not run again: %s", strings.Join(retry.SkipTaskIDs, ", "))
	return nil
}

// deploy uploads an example and deploys it under the flow's name.
func (d *demo) deploy(ctx context.Context, work, flow string) error {
	d.step("Upload and deploy localstack/examples/%s/flow.py", flow)
	spec, zip, err := pack(ctx, d.Python, work, flow)
	if err != nil {
		return err
	}
	out, err := d.api.Upload(ctx, client.Upload{FlowName: flow, FlowVersion: "1", DeploymentName: flow, Spec: spec, Zip: zip})
	if err != nil {
		return err
	}
	d.say("deployment %s runs version %s of %s, code %.12s", out.DeploymentName, out.FlowVersion, out.FlowName, out.CodeHash)
	return nil
}

// run starts a run and shows it until it has ended.
func (d *demo) run(ctx context.Context, in client.RunRequest) (client.Run, error) {
	run, err := d.api.Start(ctx, in)
	if err != nil {
		return run, err
	}
	return d.watch(ctx, run.RunID)
}

func (d *demo) watch(ctx context.Context, id string) (client.Run, error) {
	shown := progress{out: d.Out, live: d.Live}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	run, err := d.api.Watch(ctx, id, 50*time.Millisecond, shown.show)
	if err != nil {
		return run, err
	}
	shown.end(run)
	return run, nil
}

// expect compares the states of a run and of the attempts of some of its tasks.
func (d *demo) expect(run client.Run, status string, tasks map[string]string) error {
	if run.Status != status {
		return fmt.Errorf("run %s is %s (%s), not %s", run.RunID, run.Status, run.ErrorMessage, status)
	}
	for name, want := range tasks {
		var states []string
		for _, t := range run.Task(name) {
			states = append(states, t.Status)
		}
		if got := strings.Join(states, " "); got != want {
			return fmt.Errorf("task %s of run %s is %q, not %q", name, run.RunID, got, want)
		}
	}
	return nil
}

// log shows the first lines of a run's log and checks that it contains a line.
func (d *demo) log(ctx context.Context, run client.Run, lines int, want string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	events, err := d.api.Log(ctx, run.RunID)
	if err != nil {
		return err
	}
	d.step("Its log, %d of %d events", min(lines, len(events)), len(events))
	for _, e := range events[:min(lines, len(events))] {
		_, clock, _ := strings.Cut(e.Timestamp, "T")
		d.say("%-13s  %-9s  %s", clock, e.TaskName, clip(lastLine(e.Message), 90))
	}
	if !slices.ContainsFunc(events, func(e client.LogEvent) bool { return e.Message == want }) {
		return fmt.Errorf("the log of run %s lacks %q", run.RunID, want)
	}
	return nil
}

// lastLine returns the last line, which tells the error in a traceback.
func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// goOn prints what to do next with the data directory.
func (d *demo) goOn() {
	d.step("Go on")
	binary := d.Binary
	if here, err := os.Getwd(); err == nil {
		if short, err := filepath.Rel(here, binary); err == nil && !strings.HasPrefix(short, "..") {
			binary = short
		}
	}
	credentials := filepath.Join(d.Dir, "credentials.json")
	d.say(`%s serve --data %s --allow-loopback &`, binary, d.Dir)
	d.say(`KEY=$(sed -n 's/.*"api_key": "\(.*\)".*/\1/p' %s)`, credentials)
	d.say(`curl -H "Authorization: Bearer $KEY" http://127.0.0.1:8080/runs`)
	d.say(`curl -H "Authorization: Bearer $KEY" http://127.0.0.1:8080/flows/etl/latest`)
	d.say(`curl -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' http://127.0.0.1:8080/runs \`)
	d.say(`     -d '{"deployment": "flaky", "parameters": {"page_url": "https://example.com/"}, "execute": true}'`)
	d.say("The API is described at http://127.0.0.1:8080/docs")
}

func (d *demo) step(format string, args ...any) {
	fmt.Fprintf(d.Out, "\n== "+format+"\n", args...)
}

func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.Out, "   "+format+"\n", args...)
}
