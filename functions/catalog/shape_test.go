package catalog

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// plumbing are the folders of functions/ that are not domains.
var plumbing = []string{"bootstrap", "catalog", "sandbox"}

// domainFile matches a domain's file names: the function's spec, its operations
// and bodies, its rules, its records and queries, its event handlers, its timed
// work. Parts of a long file have a suffix.
var domainFile = regexp.MustCompile(`^(spec|api|service|store|events|due)(_[a-z]+)?\.go$`)

// TestDomainsHaveOneShape, so that knowing one folder means knowing all.
func TestDomainsHaveOneShape(t *testing.T) {
	t.Parallel()
	folders, err := os.ReadDir(filepath.Join(here, ".."))
	require.NoError(t, err)
	seen := 0
	for _, folder := range folders {
		if slices.Contains(plumbing, folder.Name()) {
			continue
		}
		seen++
		files, err := filepath.Glob(filepath.Join(here, "..", folder.Name(), "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			if name := filepath.Base(file); !strings.HasSuffix(name, "_test.go") {
				assert.Regexp(t, domainFile, name, "functions/%s: a domain has spec.go, api.go, service.go, store.go, events.go and due.go", folder.Name())
			}
		}
		assert.FileExists(t, filepath.Join(here, "..", folder.Name(), "spec.go"))
	}
	assert.Greater(t, seen, 10)
}

// TestUndeployableSpecIsRejected: a function is one kind of handler, because
// Lambda has one entry point, and its triggers must be of that kind.
func TestUndeployableSpecIsRejected(t *testing.T) {
	t.Parallel()
	routes := func(*httpapi.API, fn.Deps) {}
	messages := func(fn.Deps) fn.MessageHandler { return nil }
	handle := func(fn.Deps) fn.Handler { return nil }
	good := fn.Spec{Name: "good", Timeout: time.Second, MemoryMB: 128}
	for name, test := range map[string]struct {
		change func(*fn.Spec)
		want   string
	}{
		"HTTP":                {func(s *fn.Spec) { s.Trigger.HTTP, s.Routes = true, routes }, ""},
		"a queue":             {func(s *fn.Spec) { s.Trigger.Queues, s.Messages = []fn.QueueTrigger{{Queue: "q", Batch: 1}}, messages }, ""},
		"events of the bus":   {func(s *fn.Spec) { s.Trigger.DetailTypes, s.Messages = []string{"x"}, messages }, ""},
		"a tick":              {func(s *fn.Spec) { s.Trigger.EveryMinute, s.Handle = true, handle }, ""},
		"a probe":             {func(s *fn.Spec) { s.Trigger.Probe, s.Handle = true, handle }, ""},
		"a probe of HTTP":     {func(s *fn.Spec) { s.Trigger.HTTP, s.Trigger.Probe, s.Routes = true, true, routes }, "has no Handle"},
		"a tick and a probe":  {func(s *fn.Spec) { s.Trigger.EveryMinute, s.Trigger.Probe, s.Handle = true, true, handle }, "gets a tick and an empty event"},
		"HTTP and a queue":    {func(s *fn.Spec) { s.Trigger.HTTP, s.Routes, s.Messages = true, routes, messages }, "takes several kinds of events"},
		"a queue and a tick":  {func(s *fn.Spec) { s.Messages, s.Handle = messages, handle }, "takes several kinds of events"},
		"nothing":             {func(*fn.Spec) {}, "takes no event"},
		"routes without HTTP": {func(s *fn.Spec) { s.Routes = routes }, "has operations, and no HTTP trigger"},
		"unmatched requests without HTTP": {func(s *fn.Spec) {
			s.Trigger.Unmatched, s.Trigger.EveryMinute, s.Handle = true, true, handle
		}, "gets unmatched requests, and has no HTTP trigger"},
		"a URL": {func(s *fn.Spec) { s.Trigger.HTTP, s.Trigger.OwnURL, s.Routes = true, true, routes }, ""},
		"a URL without HTTP": {func(s *fn.Spec) {
			s.Trigger.OwnURL, s.Trigger.EveryMinute, s.Handle = true, true, handle
		}, "has a URL of its own, and requests that do not come by it"},
		"a URL and unmatched requests": {func(s *fn.Spec) {
			s.Trigger.HTTP, s.Trigger.OwnURL, s.Trigger.Unmatched, s.Routes = true, true, true, routes
		}, "has a URL of its own, and requests that do not come by it"},
		"HTTP without routes": {func(s *fn.Spec) { s.Trigger.HTTP, s.Handle = true, handle }, "has an HTTP trigger, and no operations"},
		"queues without reader": {func(s *fn.Spec) {
			s.Trigger.HTTP, s.Routes, s.Trigger.Queues = true, routes, []fn.QueueTrigger{{Queue: "q", Batch: 1}}
		}, "is fed by queues, and takes no messages"},
		"messages from nowhere": {func(s *fn.Spec) { s.Messages = messages }, "takes messages, and nothing feeds it"},
		"a tick to a reader": {func(s *fn.Spec) {
			s.Trigger.EveryMinute, s.Trigger.DetailTypes, s.Messages = true, []string{"x"}, messages
		}, "is invoked every minute, and has no Handle"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := good
			test.change(&spec)
			err := validate(spec)
			if test.want == "" {
				assert.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
			assert.Panics(t, func() { checked(spec) })
		})
	}
}
