package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/jsii-runtime-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/shared/account/quota"
	"millrace/shared/web/fn"
)

// TestWallsAddUp divides accounts of several quotas, and parts of them: Lambda
// keeps what it must, the sandboxes have at least as much as everything else
// may take from them, and each function that is triggered by messages has some.
func TestWallsAddUp(t *testing.T) {
	t.Parallel()
	specs := catalog.All()
	for _, quotaOf := range []int{0, 10, 199, 200, 400, 1000, 5000, 100_000} {
		for _, share := range []int{0, 10, 50, 100} {
			c := Config{Concurrency: quotaOf, Share: share}
			w := c.divide(specs)
			name := fmt.Sprintf("%d%% of %d", share, quotaOf)
			sum := 0
			for _, n := range w.reserved {
				sum += n
			}
			if quotaOf == 0 || c.whole() < 200 {
				assert.Empty(t, w.reserved, name)
			} else {
				require.NotEmpty(t, w.reserved, name)
				assert.GreaterOrEqual(t, quotaOf-sum*100/c.share(), 100, "%s: Lambda keeps 100, though all deployments do the same", name)
				assert.GreaterOrEqual(t, w.sandboxes(), c.whole()*4/10, name)
				assert.Equal(t, w.whole-sum, w.sandboxes())
				for _, s := range specs {
					assert.Positive(t, w.reserved[s.Name], "%s: %s", name, s.Name)
				}
			}
			limits, err := quota.ParseValues(w.limits(c))
			require.NoError(t, err)
			running, limited := limits.Of(quota.RunningTasks)
			assert.True(t, limited && running >= 1 && running <= int64(max(w.sandboxes()/2, 1)), "%s: a workspace runs %d tasks", name, running)
			all, limited := limits.Of(quota.RunningOfAll)
			assert.True(t, limited && all == int64(max(w.sandboxes(), 1)), "%s: all workspaces run %d tasks", name, all)
			batches := map[string]int{}
			for queue, s := range feeds(specs) {
				n := w.mappings[queue]
				assert.True(t, n >= 2 && n <= 1000, "%s: %s has %d", name, queue, n)
				batches[s.Name] += n
			}
			for function, n := range batches {
				if len(w.reserved) > 0 {
					assert.GreaterOrEqual(t, w.reserved[function], n, "%s: %s is not throttled by its own maximum", name, function)
				}
			}
			if c.whole() >= 1000 {
				assert.LessOrEqual(t, batches["taskworker"], c.whole()/9, "%s: workers leave room for sandboxes", name)
			}
		}
	}
}

// TestOperatorsLimitsReplaceTheWall reads the limits of a deployment's functions.
func TestOperatorsLimitsReplaceTheWall(t *testing.T) {
	t.Parallel()
	one.Lock()
	defer one.Unlock()
	at := api{url: func(string) *string { return jsii.String("https://api.acme.example") }}
	for _, own := range []string{"2", "7", "600", quota.Unlimited} {
		cfg := example()
		cfg.Concurrency, cfg.Limits = 2000, []string{"plan=free", "running-tasks=" + own, "running-tasks-of-all=" + own, "run-retention-days=3"}
		specs := catalog.All()
		i := slices.IndexFunc(specs, func(s fn.Spec) bool { return s.Name == "taskworker" })
		env := environment(cfg, specs[i], at, signIn{}, cfg.divide(specs))
		want, err := quota.ParseValues(cfg.Limits)
		require.NoError(t, err)
		got, err := quota.ParseValues(strings.Split(*env["MILLRACE_LIMITS"], ","))
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

// TestWallsAreInTheTemplate synthesizes a deployment with a quota, and one
// without.
func TestWallsAreInTheTemplate(t *testing.T) {
	t.Parallel()
	cfg := example()
	cfg.Concurrency, cfg.Share = 2000, 50
	with, without := synth(t, cfg, catalog.All(), "code"), deployed(t)
	w := cfg.divide(with.specs)
	for _, s := range with.specs {
		assert.EqualValues(t, w.reserved[s.Name], with.function(t, s.Name).properties["ReservedConcurrentExecutions"], s.Name)
		assert.NotContains(t, without.function(t, s.Name).properties, "ReservedConcurrentExecutions", s.Name)
	}
	for _, d := range []deployment{with, without} {
		mappings := d.service.of("Lambda::EventSourceMapping")
		require.Len(t, mappings, len(feeds(d.specs)))
		for _, m := range mappings {
			scaling, _ := m.properties["ScalingConfig"].(object)
			n, _ := scaling["MaximumConcurrency"].(float64)
			assert.True(t, n >= 2 && n <= 1000, "%s: %v", m.id, scaling)
		}
	}
	for _, r := range with.service.of("Lambda::Function") {
		if strings.HasPrefix(r.id, "Sandbox") && !slices.ContainsFunc(with.specs, func(s fn.Spec) bool { return camel(s.Name)+"Function" == r.id }) {
			assert.NotContains(t, r.properties, "ReservedConcurrentExecutions", "all tiers share what is left")
		}
	}
}
