package catalog

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/shared/account/quota"
	"millrace/shared/kit/due"
	"millrace/shared/platform/queue"
	"millrace/shared/run/tasktype"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

var update = flag.Bool("update", false, "write the generated files anew")

// The README's tables are between these lines.
const (
	begin = "<!-- %s: written by make generate -->\n"
	end   = "<!-- end of %s -->\n"
)

func TestOperationsAreThoseOfTheGoldenFile(t *testing.T) {
	t.Parallel()
	golden(t, filepath.Join("testdata", "operations.tsv"), func(string) string { return Table(Public(Operations(All()))) })
}

func TestReadmeListsOperationsLimitsAndTaskTypes(t *testing.T) {
	t.Parallel()
	golden(t, filepath.Join("..", "..", "README.md"), func(text string) string {
		for name, list := range map[string]string{"operations": Markdown(Public(Operations(All()))), "limits": quota.Markdown(), "task types": tasktype.Markdown()} {
			begin, end := fmt.Sprintf(begin, name), fmt.Sprintf(end, name)
			before, rest, found := strings.Cut(text, begin)
			_, after, ended := strings.Cut(rest, end)
			require.True(t, found && ended, "the README has lost its marks")
			text = before + begin + list + end + after
		}
		return text
	})
}

// here is this folder. The object store of other tests changes the working
// directory.
var here, _ = os.Getwd()

func golden(t *testing.T, path string, want func(old string) string) {
	t.Helper()
	path = filepath.Join(here, path)
	old, err := os.ReadFile(path)
	if !*update {
		require.NoError(t, err)
		require.Equal(t, want(string(old)), string(old), "%s is out of date: run make generate", path)
		return
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(want(string(old))), 0o644))
}

func TestEverySpecIsComplete(t *testing.T) {
	t.Parallel()
	fed := map[string]string{}
	var queues []string
	for _, def := range Queues(All()) {
		queues = append(queues, def.Name)
	}
	for _, s := range All() {
		assert.NotEmpty(t, s.Name)
		assert.NotEmpty(t, s.Doc, s.Name)
		assert.GreaterOrEqual(t, s.MemoryMB, 128, s.Name)
		assert.Greater(t, s.Timeout, time.Duration(0), s.Name)
		assert.LessOrEqual(t, s.Timeout, 15*time.Minute, s.Name)
		assert.Equal(t, s.Trigger.HTTP, s.Routes != nil, "%s: HTTP and Routes go together", s.Name)
		fromQueue := len(s.Trigger.Queues) > 0 || len(s.Trigger.Due) > 0 || len(s.Trigger.DetailTypes) > 0 || len(s.Trigger.Objects.Events) > 0
		assert.Equal(t, fromQueue, s.Messages != nil, "%s: queues and Messages go together", s.Name)
		assert.Equal(t, s.Trigger.EveryMinute, s.Handle != nil, "%s: a tick needs Handle", s.Name)
		assert.NoError(t, s.Trigger.Objects.Check(), s.Name)
		for _, q := range s.Trigger.Queues {
			assert.Empty(t, fed[q.Queue], "%s feeds two functions", q.Queue)
			fed[q.Queue] = s.Name
			assert.Contains(t, events.AllQueues(), q.Queue)
			assert.True(t, q.Batch >= 1 && q.Batch <= 10, "%s takes batches of %d", s.Name, q.Batch)
		}
		assert.Equal(t, s.Needs.Blob == fn.Writes, len(s.Needs.Folders) > 0, "%s: Folders go with Blob: Writes", s.Name)
		for _, q := range s.Needs.Send {
			assert.Contains(t, queues, q, s.Name)
		}
	}
	for _, q := range events.AllQueues() {
		assert.NotEmpty(t, fed[q], "no function takes messages of %s", q)
	}
}

func TestEveryOperationIsDescribed(t *testing.T) {
	t.Parallel()
	ops := Operations(All())
	require.NotEmpty(t, ops)
	for _, op := range ops {
		assert.NotEmpty(t, op.Summary, op.ID)
		spec, found := Find(All(), op.Function)
		assert.True(t, found && spec.Trigger.HTTP, "%s is served by %s", op.ID, op.Function)
		if spec.Trigger.OwnURL {
			assert.True(t, op.Hidden && op.Access.IsPublic() && op.Credential != nil && !op.Stream, "%s is at a URL of its own", op.ID)
		}
	}
}

func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	assert.PanicsWithValue(t, `catalog: two functions are named "a"`, func() {
		checked(onTick("a"), onTick("b"), onTick("a"))
	})
	_, found := Find(All(), "no-such-function")
	assert.False(t, found)
}

// timed is a fictitious function for kinds of timed work.
func timed(name string, kinds ...string) fn.Spec {
	s := fn.Spec{Name: name, Messages: func(fn.Deps) fn.MessageHandler { return nil }, Timeout: time.Minute}
	for _, kind := range kinds {
		s.Trigger.Due = append(s.Trigger.Due, due.Kind{Name: kind})
	}
	return s
}

func TestKindOfTimedWorkHasOneFunction(t *testing.T) {
	t.Parallel()
	assert.PanicsWithValue(t, `catalog: "a" and "b" both take what is due of the kind "poll"`, func() {
		With(timed("a", "poll", "sla"), timed("b", "poll"))
	})
	assert.PanicsWithValue(t, `catalog: "a" and "a" both take what is due of the kind "poll"`, func() { With(timed("a", "poll", "poll")) })
	assert.Panics(t, func() { With(timed("a", "P#1")) })

	specs := With(timed("a", "poll", "sla"), timed("b", "approval"))
	tick, found := Find(specs, "scheduler-tick")
	require.True(t, found)
	own, found := Find(All(), "scheduler-tick")
	require.True(t, found)
	assert.Equal(t, append(own.Needs.Send, "due-poll", "due-sla", "due-approval"), tick.Needs.Send)
	assert.Subset(t, Queues(specs), []queue.Definition{
		{Name: "due-poll", Visibility: 2 * time.Minute}, {Name: "due-sla", Visibility: 2 * time.Minute}, {Name: "due-approval", Visibility: 2 * time.Minute},
	})
	assert.Contains(t, own.Needs.Send, events.Runs)
	for _, spec := range All() {
		for _, kind := range spec.Trigger.Due {
			assert.Contains(t, own.Needs.Send, kind.Queue())
		}
	}
}

// taker is a fictitious function for events of the bucket.
func taker(name string) fn.Spec {
	objects := fn.ObjectTrigger{Events: []fn.ObjectEvent{fn.ObjectCreated}}
	return fn.Spec{Name: name, Trigger: fn.Trigger{Objects: objects}, Messages: func(fn.Deps) fn.MessageHandler { return nil }, Timeout: time.Minute}
}

// onTick is a fictitious function for ticks.
func onTick(name string) fn.Spec {
	return fn.Spec{Name: name, Trigger: fn.Trigger{EveryMinute: true}, Handle: func(fn.Deps) fn.Handler { return nil }}
}

func TestOneFunctionGetsUnmatchedRequests(t *testing.T) {
	t.Parallel()
	spec := func(name string, unmatched bool) fn.Spec {
		return fn.Spec{Name: name, Trigger: fn.Trigger{HTTP: true, Unmatched: unmatched}, Routes: func(*httpapi.API, fn.Deps) {}}
	}
	assert.PanicsWithValue(t, `catalog: "a" and "c" both get unmatched requests`, func() {
		checked(spec("a", true), spec("b", false), spec("c", true))
	})
	to, found := Unmatched(All())
	assert.True(t, found)
	assert.Equal(t, "console", to.Name)
	_, found = Unmatched(nil)
	assert.False(t, found)
}

func TestOneFunctionGetsObjectEvents(t *testing.T) {
	t.Parallel()
	assert.PanicsWithValue(t, `catalog: "a" and "c" both get events of objects`, func() {
		checked(taker("a"), onTick("b"), taker("c"))
	})
	specs := checked(onTick("b"), taker("a"))
	to, found := ObjectsTo(specs)
	assert.True(t, found)
	assert.Equal(t, "a", to.Name)
	assert.Equal(t, []queue.Definition{{Name: events.ObjectQueue, Visibility: 2 * time.Minute}}, Queues(specs))
	_, found = ObjectsTo(specs[:1])
	assert.False(t, found)
}
