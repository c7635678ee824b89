package fsck_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
	"millrace/localstack/embedded/datadir"
	"millrace/localstack/embedded/pebbletable"
	"millrace/localstack/embedded/server"
	"millrace/localstack/embedded/store"
	"millrace/localstack/proof/fsck"
	"millrace/shared/account/audit"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

// left is the data directory of a stopped server that ran some flows.
type left struct{ dir, org, done, failed string }

func leave(t *testing.T) left {
	dir := t.TempDir()
	s, err := server.Open(t.Context(), server.Config{Dir: dir, Listen: "127.0.0.1:0", NoTick: true, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	api := &client.Client{BaseURL: s.Credentials().BaseURL, Token: s.Credentials().APIKey}
	run := func(flow, key string, tasks ...map[string]any) string {
		require.NoError(t, api.Do(ctx, http.MethodPost, "/flows", map[string]any{"flow_name": flow, "flow_version": "1", "flow_spec": map[string]any{"tasks": tasks}}, nil))
		run, err := api.Start(ctx, client.RunRequest{FlowName: flow, FlowVersion: "1", Execute: true, IdempotencyKey: key})
		require.NoError(t, err)
		_, err = api.Log(ctx, run.RunID) // it is archived
		require.NoError(t, err)
		return run.RunID
	}
	task := func(name, expression string, deps ...string) map[string]any {
		return map[string]any{"name": name, "type": "transform", "depends_on": deps, "config": map[string]any{"expression": expression}}
	}
	each := task("b", "item", "a")
	each["map_over"] = "[1, 2]"
	l := left{dir: dir, org: s.Credentials().OrgID}
	l.done = run("f", "key", task("a", "1"), each, task("c", "2", "a", "b"))
	l.failed = run("g", "", task("a", "params.absent"), task("b", "1", "a"))
	stop()
	require.NoError(t, <-served)
	return l
}

// change changes an item behind the service's back.
func (l left) change(t *testing.T, write table.Write) {
	db, err := store.Open(datadir.Store(l.dir), store.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	items := pebbletable.New(db, clock.System{})
	require.NoError(t, items.Transact(t.Context(), write))
}

func set(key table.Key, attr string, v any) table.Write {
	return table.Update{Key: key, Do: []table.Action{table.Set(attr, v)}}
}

// TestEveryFaultIsFound corrupts the data in one way after the other.
func TestEveryFaultIsFound(t *testing.T) {
	l := leave(t)
	whole, err := fsck.Read(t.Context(), l.dir, nil)
	require.NoError(t, err)
	require.Empty(t, whole.Check(t.Context()))
	require.Empty(t, whole.CheckIdle(t.Context()))
	require.Len(t, whole.Runs(), 2)
	original := os.DirFS(l.dir)

	run, node := runstate.RunKey(l.org, l.done), func(n engine.Node) table.Key { return runstate.NodeKey(l.org, l.done, n) }
	instance := whole.Run(fsck.RunID{Org: l.org, ID: l.done}).Plan.Instance(1, 1)
	later := time.Now().Add(time.Hour)
	var entry table.Key
	for shard := range audit.Shards {
		for _, item := range whole.Items(audit.Partition(l.org, strconv.Itoa(shard))) {
			if item["resource_id"].Str() == l.done {
				entry = item.Key()
			}
		}
	}
	due := runstate.DueAt(l.org, l.done, 1, later)
	used := sha256.Sum256([]byte("key"))
	keys := table.Key{PK: l.org + "#idempotency#" + hex.EncodeToString(used[:]), SK: "f"}
	require.Len(t, whole.Items(keys.PK), 1)
	for name, c := range map[string]struct {
		write table.Write
		want  string
	}{
		"a run that does not end":       {set(run, runstate.RunStatus, "RUNNING"), "it is done with: ended false"},
		"a run that changed":            {set(run, runstate.RunError, "x"), "was SUCCEEDED and changed"},
		"a run that failed":             {set(run, runstate.RunStatus, "FAILED"), "its sinks make it SUCCEEDED"},
		"a run that is gone":            {table.Delete{Key: run}, "belongs to a run that does not exist"},
		"a run that will not come up":   {table.Update{Key: run, Do: []table.Action{table.Remove(runstate.RunArchived)}}, "will not come up"},
		"a run that comes up":           {table.Update{Key: run, Do: []table.Action{table.Set(runstate.DuePK, due.DuePK), table.Set(runstate.DueSK, due.DueSK)}}, "it is done with: ended true, archive true, due"},
		"a run without its archive":     {table.Delete{Key: runstate.ArchiveKey(l.org, l.done)}, "it is done with: ended true, archive false"},
		"a run without its input":       {table.Delete{Key: runstate.InputKey(l.org, l.done)}, "has no input"},
		"a task that is gone":           {table.Delete{Key: node(0)}, "before a is finished"},
		"a task that does not end":      {set(node(2), runstate.NodeStatus, "RUNNING"), "its task c is not finished"},
		"a task that failed":            {set(node(0), runstate.NodeStatus, "FAILED"), "its rule all_success says UPSTREAM_FAILED"},
		"a task with another output":    {set(node(0), runstate.NodeOutput, "7"), "its out changed"},
		"a task that was tried again":   {set(node(0), runstate.NodeAttempt, 2), "is at attempt 2 and has a history of 0"},
		"a task that keeps a lease":     {set(node(0), runstate.NodeLease, later.UnixMilli()), "keeps a lease"},
		"a join told what is not so":    {table.Update{Key: node(2), Do: []table.Action{table.AddToSet(runstate.NodeFailed, 0)}}, "was told the outcome"},
		"an instance that is gone":      {table.Delete{Key: node(instance)}, "which has 0 (finished: false)"},
		"a map that is narrower":        {set(node(1), runstate.NodeWidth, 1), "stands outside its map"},
		"a log that is left":            {set(table.Key{PK: runstate.LogPartition(l.org, l.done), SK: "x"}, "n", 1), "1 batches of its log are left"},
		"an audit entry that is gone":   {table.Delete{Key: entry}, "it has 0 audit entries of the action create"},
		"an audit entry that changed":   {set(entry, "actor_email", "x"), "changed from"},
		"a key of a run that is not":    {set(keys, "run", "01"), "names the run 01, which does not exist"},
		"an occurrence without a run":   {table.Put{Item: table.Item{"pk": table.V(l.org + "#occurrence#x"), "sk": table.V("run"), "run": table.V("02")}}, "names the run 02, which does not exist"},
		"a count of versions":           {set(table.Key{PK: l.org + "#flows", SK: "f"}, "versions", 2), "counts 2 versions and has 1"},
		"a version that is not audited": {set(table.Key{PK: l.org + "#flow#f", SK: "v#1"}, "flow_version", "2"), "has 0 audit entries of its making"},
	} {
		l.dir = t.TempDir()
		require.NoError(t, os.CopyFS(datadir.Store(l.dir), must(fs.Sub(original, "store"))))
		l.change(t, c.write)
		now, err := fsck.Read(t.Context(), l.dir, nil)
		require.NoError(t, err)
		found := append(now.Check(t.Context()), now.CheckIdle(t.Context())...)
		found = append(found, fsck.Changes(whole, now)...)
		assert.Contains(t, strings.Join(found, "\n"), c.want, name)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestEntriesAndMessages corrupts index entries and messages.
func TestEntriesAndMessages(t *testing.T) {
	l := leave(t)
	s, err := fsck.Read(t.Context(), l.dir, nil)
	require.NoError(t, err)
	for e := range s.Entries {
		if e.Item == runstate.RunKey(l.org, l.done) && e.Index == string(table.ByList) {
			delete(s.Entries, e)
		}
	}
	s.Entries[fsck.Entry{Index: string(table.Due), At: table.Key{PK: "due#1", SK: "x"}, Item: table.Key{PK: "p", SK: "s"}}] = true
	found := strings.Join(s.Check(t.Context()), "\n")
	assert.Contains(t, found, "the index l1 lacks the entry")
	assert.Contains(t, found, "the index due has an entry")
	message := func(queue, kind, run string, due time.Time) fsck.Message {
		return fsck.Message{Queue: queue, Due: due, Body: fmt.Appendf(nil, `{"kind":%q,"org_id":%q,"run_id":%q}`, kind, l.org, run)}
	}
	later := s.At.Add(time.Minute)
	s.Messages = []fsck.Message{
		message("runs", "look", l.done, later), message("tasks-nano-dead", "task", l.failed, s.At),
		message("tasks-nano", "task", l.done, s.At), message("runs", "look", "none", later), {Queue: "runs", Body: []byte("?")},
	}
	assert.Len(t, s.CheckIdle(t.Context()), 3)
}
