package attack

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"millrace/localstack/client"
)

// begin uploads or registers a flow and starts it the given number of times. A
// flow without a source has no Python tasks; mode is its tier. When the attack
// is over the runs are cancelled, so that later attacks meet only what the
// server retains.
func (a *attacker) begin(times int, mode, source string, tasks ...object) {
	var err error
	in := client.RunRequest{FlowName: a.Attack, FlowVersion: "1", ExecutionMode: mode}
	if source == "" {
		err = register(a.ctx, a.api, a.Attack, tasks...)
	} else {
		err = upload(a.ctx, a.api, a.Attack, source, tasks...)
	}
	if err != nil {
		a.problem("%v", err)
		return
	}
	var runs []string
	for range times {
		run, err := a.api.Start(a.ctx, in)
		a.counted("POST /runs", err)
		if err == nil {
			runs = append(runs, run.RunID)
		}
	}
	<-a.ends.Done()
	ctx, cancel := context.WithTimeout(a.ctx, 10*time.Second)
	defer cancel()
	for _, id := range runs {
		run, err := a.api.Run(ctx, id)
		a.counted("GET /runs/"+id, err)
		for _, t := range run.TaskRuns {
			a.answer(t.Status)
		}
		_ = a.api.Do(ctx, http.MethodPost, "/runs/"+id+"/cancel", nil, nil) // it may have ended
	}
}

// largeOutputs makes many tasks read an output that takes thirty times its size
// in memory.
func largeOutputs(a *attacker) {
	n := size(200_000, 5_200_000)
	readers := many(40, func(name string) object {
		return transform(name, "size(tasks.make.output) + tasks.make.output.filter(x, 'a' in x).size()", "make")
	})
	source := "def make(ctx):\n    return [{}] * " + text(n) + "\n"
	a.begin(size(1, 3), "medium", source, append(readers, python("make"))...)
}

// largeAnswers makes many http tasks receive a response that takes much more
// than its size in memory.
func largeAnswers(a *attacker) {
	n := size(100_000, 10_000_000)
	page := []byte("[" + strings.Repeat("{},", n) + "{}]")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(page) // the server may stop reading
	}))
	defer server.Close()
	a.begin(size(1, 2), "nano", "", many(20, func(name string) object {
		return object{"name": name, "type": "http", "config": object{"url": server.URL}}
	})...)
}

// pythonBombs are tasks that fork, allocate memory, both, or fill the disk.
func pythonBombs(a *attacker) {
	source := `
import os, time

def forks(ctx):
    while True:
        try:
            if os.fork() == 0:
                time.sleep(30)
                os._exit(0)
        except OSError:
            time.sleep(0.01)

def eats(ctx):
    kept = []
    while True:
        kept.append(bytearray(os.urandom(1 << 20)))

def both(ctx):
    for _ in range(10):
        if os.fork() == 0:
            kept = bytearray(os.urandom(1 << 20)) * 240
            time.sleep(30)
            os._exit(0)
    time.sleep(30)

def fills(ctx):
    for i in range(1 << 20):
        with open(f"file{i}", "wb") as f:
            f.write(bytes(4 << 20))

def burns(ctx):
    while True:
        pass
`
	if !*full { // a partial attack only shows that it is stopped
		a.begin(1, "nano", source, python("eats"), python("both"))
		return
	}
	a.begin(2, "nano", source, python("forks"), python("eats"), python("both"), python("fills"), python("burns"))
}

// slowHTTP makes http tasks wait for a server that does not respond.
func slowHTTP(a *attacker) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		a.problem("%v", err)
		return
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
		}
	}()
	a.begin(size(1, 4), "nano", "", many(50, func(name string) object {
		return object{"name": name, "type": "http", "timeout_secs": 60, "config": object{"url": "http://" + l.Addr().String() + "/"}}
	})...)
}

// sleepers are Python tasks that sleep.
func sleepers(a *attacker) {
	a.begin(4, "nano", "import time\n\ndef nap():\n    time.sleep(60)\n", many(size(2, 16), func(name string) object {
		task := python(name)
		task["entrypoint"] = "flow:nap"
		return task
	})...)
}
