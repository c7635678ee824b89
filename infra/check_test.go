package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/infra/preflight"
)

// quotas is an account without stacks.
type quotas struct {
	preflight.Account
	concurrency int
	reserved    int // by other deployments
}

func (quotas) ID(context.Context) (string, error)                     { return "123456789012", nil }
func (quotas) LargestFunction(context.Context) (int, error)           { return 0, nil }
func (quotas) Stack(context.Context, string) (preflight.Stack, error) { return preflight.Stack{}, nil }
func (q quotas) Concurrency(context.Context) (quota, unreserved int, err error) {
	return q.concurrency, q.concurrency - q.reserved, nil
}

// TestCheckCountsWhatIsReserved: a third deployment of an account of the usual
// size needs a share.
func TestCheckCountsWhatIsReserved(t *testing.T) {
	t.Parallel()
	with := func(reserved int, args ...string) error {
		open := func(context.Context, string) (preflight.Account, error) {
			return quotas{concurrency: 1000, reserved: reserved}, nil
		}
		var out bytes.Buffer
		return check(t.Context(), append([]string{"-c", "tenant=acme", "-c", "region=eu-west-1"}, args...), open, &out, &out)
	}
	each := example().reserves(1000)
	assert.Greater(t, each, 300)
	require.NoError(t, with(0))
	require.NoError(t, with(each))
	require.ErrorContains(t, with(2*each), "-c share=")
	require.NoError(t, with(2*each, "-c", "share=10"), "it reserves nothing")
}

func TestCheckTellsContextThatWasRead(t *testing.T) {
	t.Parallel()
	with := func(concurrency int, args ...string) (found, out string, err error) {
		var stdout, stderr bytes.Buffer
		open := func(_ context.Context, region string) (preflight.Account, error) {
			assert.Contains(t, []string{"eu-west-1", "eu-central-1"}, region)
			return quotas{concurrency: concurrency}, nil
		}
		err = check(t.Context(), append([]string{"-c", "tenant=acme", "-c", "region=eu-west-1"}, args...), open, &stdout, &stderr)
		return stdout.String(), stderr.String(), err
	}
	found, out, err := with(1000)
	require.NoError(t, err)
	assert.Equal(t, "-c concurrency=1000\n", found)
	assert.Empty(t, out)

	found, out, err = with(10)
	require.ErrorContains(t, err, "acme cannot be deployed to eu-west-1 of account 123456789012:\n- ")
	require.ErrorContains(t, err, "-c tiers=nano,micro,small,medium")
	require.ErrorContains(t, err, "PREFLIGHT=off")
	assert.Empty(t, found)
	assert.Contains(t, out, "note: ")
	found, _, err = with(10, "-c", "tiers=nano,micro,small,medium")
	require.NoError(t, err)
	assert.Equal(t, "-c concurrency=10\n", found)

	_, _, err = with(1000, "-c", "backupRegion=eu-west-1")
	require.ErrorContains(t, err, "own region")
	found, _, err = with(1000, "-c", "backupRegion=eu-central-1")
	require.NoError(t, err)
	assert.Equal(t, "-c concurrency=1000\n", found)

	for _, args := range [][]string{{"-c"}, {"-c", "tiers"}, {"--all", "x=y"}, {"-c", "tires=nano"}, {"-c", "tiers=giant"}} {
		_, _, err := with(1000, args...)
		require.Error(t, err, args)
	}
}
