package cloud

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"millrace/localstack/runtimeapi"
)

// environment is one process of a function.
type environment struct {
	api    *runtimeapi.API
	cmd    *exec.Cmd
	output bytes.Buffer
	exited chan struct{}
}

// spawn starts a process with nothing in its environment but env and where its
// Runtime API is.
func spawn(ctx context.Context, command []string, dir string, env ...string) (*environment, error) {
	api, err := runtimeapi.Start()
	if err != nil {
		return nil, err
	}
	e := &environment{api: api, exited: make(chan struct{})}
	e.cmd = exec.CommandContext(ctx, command[0], command[1:]...)
	e.cmd.Dir = dir
	e.cmd.Env = append([]string{"AWS_LAMBDA_RUNTIME_API=" + api.Address()}, env...)
	e.cmd.Stdout, e.cmd.Stderr = &e.output, &e.output
	e.cmd.WaitDelay = time.Second
	if err := e.cmd.Start(); err != nil {
		_ = api.Close()
		return nil, err
	}
	go func() {
		_ = e.cmd.Wait() // how it ended shows in its output
		close(e.exited)
	}()
	return e, nil
}

// end kills the process and returns what it wrote.
func (e *environment) end() string {
	_ = e.cmd.Process.Kill() // it may have ended
	<-e.exited
	_ = e.api.Close()
	return e.output.String()
}

// call runs one event.
func (e *environment) call(ctx context.Context, event runtimeapi.Event) (*runtimeapi.Answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-e.exited:
			cancel(errors.New("the function's process ended"))
		case <-ctx.Done():
		}
	}()
	return e.api.Invoke(ctx, event)
}

// Invoke runs an event on a function of the catalog, as Lambda does. Closing
// the answer's body frees the process. Errors: *runtimeapi.Fault.
func (c *Cloud) Invoke(ctx context.Context, name string, payload []byte) (*runtimeapi.Answer, error) {
	spec, err := c.spec(name)
	if err != nil {
		return nil, err
	}
	return c.run(ctx, name, runtimeapi.Event{Payload: payload, Timeout: spec.Timeout, ARN: arn(name)}, func() (*environment, error) {
		return spawn(c.running, []string{c.binary}, "", append(c.env, "_HANDLER="+name)...)
	})
}

func arn(name string) string { return "arn:aws:lambda:us-east-1:000000000000:function:" + name }

// run takes an idle environment, or starts one, for one event.
func (c *Cloud) run(ctx context.Context, key string, event runtimeapi.Event, start func() (*environment, error)) (*runtimeapi.Answer, error) {
	event.Timeout = cmp.Or(event.Timeout, time.Minute)
	e := c.take(key)
	if e == nil {
		var err error
		if e, err = start(); err != nil {
			return nil, err
		}
		c.mu.Lock()
		c.started[key] = append(c.started[key], e)
		c.mu.Unlock()
	}
	answer, err := e.call(ctx, event)
	if fault := (*runtimeapi.Fault)(nil); err != nil && !errors.As(err, &fault) {
		return nil, fmt.Errorf("%w: %s", err, e.end())
	}
	if err != nil {
		c.free(key, e)
		return nil, err
	}
	answer.Body = &leased{ReadCloser: answer.Body, free: func() { c.free(key, e) }}
	return answer, nil
}

func (c *Cloud) take(key string) *environment {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.idle[key]
	if len(list) == 0 {
		return nil
	}
	c.idle[key] = list[:len(list)-1]
	return list[len(list)-1]
}

func (c *Cloud) free(key string, e *environment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running.Err() != nil {
		return // its process is being killed
	}
	c.idle[key] = append(c.idle[key], e)
}

// Idle counts the processes of a function that wait for an event; those of a
// sandbox function are counted by "name of workspace".
func (c *Cloud) Idle(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.idle[key])
}

// end kills every process. A failed test shows what they wrote.
func (c *Cloud) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, list := range c.started {
		for _, e := range list {
			if out := e.end(); out != "" && c.t.Failed() {
				c.t.Logf("%s wrote:\n%s", key, out)
			}
		}
	}
}

// leased frees its environment when it is closed.
type leased struct {
	io.ReadCloser
	free func()
}

// Close ends the answer.
func (l *leased) Close() error {
	err := l.ReadCloser.Close()
	if l.free != nil {
		l.free()
		l.free = nil
	}
	return err
}
