package preflight_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"millrace/infra/preflight"
	"millrace/shared/account/identity"
	"millrace/shared/run/tier"
)

// account is an account with these quotas and stacks. fails names the calls that
// are refused.
type account struct {
	concurrency, largest int
	reserved             int // by other functions
	stacks               map[string]preflight.Stack
	fails                string
	unprotected          []string
}

func (a *account) answer(call string) error {
	if a.fails != "" && strings.Contains(a.fails, call) {
		return errors.New("AccessDenied: " + call)
	}
	return nil
}

func (a *account) ID(context.Context) (string, error) { return "123456789012", a.answer("id") }
func (a *account) Concurrency(context.Context) (quota, unreserved int, err error) {
	return a.concurrency, a.concurrency - a.reserved, a.answer("concurrency")
}

func (a *account) LargestFunction(context.Context) (int, error) {
	return a.largest, a.answer("functions")
}

func (a *account) Stack(_ context.Context, name string) (preflight.Stack, error) {
	return a.stacks[name], a.answer("stack")
}

func (a *account) Unprotect(_ context.Context, name string) error {
	a.unprotected = append(a.unprotected, name)
	return a.answer("unprotect")
}

func wants(change func(*preflight.Wants)) preflight.Wants {
	w := preflight.Wants{
		Region: "eu-west-1", Stacks: []string{"data", "service"}, Data: "data", Keys: "keys", Service: "service",
		Reserves: func(quota int) int { return quota / 1000 * 400 }, // none of a small quota
		Discover: func(_ context.Context, issuer string) (identity.Discovery, error) {
			if issuer != "https://id.example" {
				return identity.Discovery{}, errors.New("no such host")
			}
			return identity.Discovery{Issuer: issuer, Keys: "k", Authorize: "a", Token: "t"}, nil
		},
	}
	if change != nil {
		change(&w)
	}
	return w
}

func TestProblemsAreNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in      account
		wants   func(*preflight.Wants)
		problem string // "": none
		note    string
	}{
		"usual account": {in: account{concurrency: 1000}},
		"own issuer":    {in: account{concurrency: 1000}, wants: func(w *preflight.Wants) { w.Issuer = "https://id.example" }},
		"new account": {
			in:      account{concurrency: 10},
			problem: "these tiers can be deployed now: -c tiers=nano,micro,small,medium.",
			note:    "--region eu-west-1 --service-code lambda --quota-code L-B99A9384 --desired-value 1000",
		},
		"new account, small tiers": {
			in: account{concurrency: 10}, wants: func(w *preflight.Wants) { w.Tiers = tier.Set{tier.Nano, tier.Medium} },
			note: "may run 10 functions at once",
		},
		"small tiers of those wanted": {
			in: account{concurrency: 999}, wants: func(w *preflight.Wants) { w.Tiers = tier.Set{tier.Nano, tier.XLarge} },
			problem: "-c tiers=nano.", note: "--desired-value 1000",
		},
		"raised memory":      {in: account{concurrency: 50, largest: 4096}, note: "may run 50 functions at once"},
		"new zealand":        {in: account{concurrency: 1000}, wants: func(w *preflight.Wants) { w.Region = "ap-southeast-6" }, problem: "no tenant isolation mode in ap-southeast-6"},
		"china":              {in: account{concurrency: 1000}, wants: func(w *preflight.Wants) { w.Region = "cn-north-1" }, problem: "no tenant isolation mode in cn-north-1"},
		"government":         {in: account{concurrency: 1000}, wants: func(w *preflight.Wants) { w.Region = "us-gov-west-1" }, problem: "no tenant isolation mode"},
		"issuer":             {in: account{concurrency: 1000}, wants: func(w *preflight.Wants) { w.Issuer = "https://nowhere.example" }, problem: "no such host"},
		"no credentials":     {in: account{fails: "id"}, problem: "credentials in the environment are of no use in eu-west-1: AccessDenied"},
		"no settings":        {in: account{fails: "concurrency"}, problem: "needs lambda:GetAccountSettings"},
		"no functions":       {in: account{concurrency: 10, fails: "functions"}, problem: "needs lambda:ListFunctions", note: "L-B99A9384"},
		"no stacks":          {in: account{concurrency: 1000, fails: "stack"}, problem: "needs cloudformation:DescribeStacks"},
		"no update":          {in: account{concurrency: 1000, fails: "unprotect", stacks: failed("data", true)}, problem: "needs cloudformation:UpdateTerminationProtection"},
		"reserved by others": {in: account{concurrency: 1000, reserved: 501}, problem: "reserves 400 concurrent executions, and of the account's 1000 in eu-west-1 only 499 are unreserved"},
		"room beside others": {in: account{concurrency: 1000, reserved: 500}},
		"reserved by itself": {in: account{concurrency: 1000, reserved: 800, stacks: map[string]preflight.Stack{"service": {Status: "UPDATE_COMPLETE"}}}},
		"deployed":           {in: account{concurrency: 1000, stacks: map[string]preflight.Stack{"data": {Status: "UPDATE_ROLLBACK_COMPLETE", Protected: true}}}},
		"failed, free":       {in: account{concurrency: 1000, stacks: failed("data", false)}},
		"failed, protected":  {in: account{concurrency: 1000, stacks: failed("data", true)}, note: "its termination protection was turned off"},
	} {
		r := preflight.Check(t.Context(), &c.in, wants(c.wants))
		if c.problem == "" {
			assert.Empty(t, r.Problems, name)
		} else {
			assert.Len(t, r.Problems, 1, name)
			assert.Contains(t, strings.Join(r.Problems, "\n"), c.problem, name)
		}
		if c.note == "" {
			assert.Empty(t, r.Notes, name)
		} else {
			assert.Contains(t, strings.Join(r.Notes, "\n"), c.note, name)
		}
	}
}

func failed(name string, protected bool) map[string]preflight.Stack {
	return map[string]preflight.Stack{name: {Status: "ROLLBACK_COMPLETE", Protected: protected}}
}

func TestProtectionStaysUnlessTheDeploymentGoesOn(t *testing.T) {
	t.Parallel()
	a := &account{concurrency: 10, stacks: failed("data", true)}
	assert.NotEmpty(t, preflight.Check(t.Context(), a, wants(nil)).Problems)
	assert.Empty(t, a.unprotected)
	a.concurrency = 1000
	assert.Empty(t, preflight.Check(t.Context(), a, wants(nil)).Problems)
	assert.Equal(t, []string{"data"}, a.unprotected)
	a = &account{concurrency: 1000, stacks: map[string]preflight.Stack{"data": {Status: "CREATE_COMPLETE", Protected: true}}}
	preflight.Check(t.Context(), a, wants(nil))
	assert.Empty(t, a.unprotected, "a stack that holds data")
}

// TestEveryProblemIsNamedAtOnce: an operator mends them together.
func TestEveryProblemIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	r := preflight.Check(t.Context(), &account{concurrency: 10}, wants(func(w *preflight.Wants) {
		w.Region, w.Issuer = "us-gov-east-1", "https://nowhere.example"
	}))
	assert.Len(t, r.Problems, 3)
}

func TestBackupIsDecidedWithTheFirstDeployment(t *testing.T) {
	t.Parallel()
	with := func(names ...string) map[string]preflight.Stack {
		all := map[string]preflight.Stack{}
		for _, name := range names {
			all[name] = preflight.Stack{Status: "CREATE_COMPLETE", Protected: true}
		}
		return all
	}
	for name, c := range map[string]struct {
		stacks  map[string]preflight.Stack
		region  string // of the backup
		there   account
		problem string // "": none
	}{
		"first deployment":          {nil, "eu-central-1", account{}, ""},
		"the next one":              {with("data", "keys"), "eu-central-1", account{}, ""},
		"interrupted after keys":    {with("keys"), "eu-central-1", account{}, ""},
		"failed data":               {failed("data", false), "eu-central-1", account{}, ""},
		"begun without":             {with("data"), "eu-central-1", account{}, "has keys of eu-west-1 alone"},
		"begun with, now without":   {with("data", "keys"), "", account{}, "give backupRegion as before"},
		"without":                   {with("data"), "", account{}, ""},
		"nothing runs there":        {nil, "ap-southeast-6", account{}, "the service could not run there"},
		"not enabled":               {nil, "eu-south-1", account{fails: "id"}, "of no use in eu-south-1"},
		"failed there":              {with("keys"), "eu-central-1", account{stacks: failed("recovery", true)}, ""},
		"stacks there are not read": {nil, "eu-central-1", account{fails: "stack"}, "The stack recovery cannot be read"},
	} {
		here := account{concurrency: 1000, stacks: c.stacks}
		r := preflight.Check(t.Context(), &here, wants(func(w *preflight.Wants) {
			if c.region != "" {
				w.Backup = &preflight.Backup{Region: c.region, Account: &c.there, Stack: "recovery"}
			}
		}))
		if c.problem == "" {
			assert.Empty(t, r.Problems, name)
			continue
		}
		assert.Len(t, r.Problems, 1, name)
		assert.Contains(t, strings.Join(r.Problems, "\n"), c.problem, name)
	}
	there := account{stacks: failed("recovery", true)}
	preflight.Check(t.Context(), &account{concurrency: 1000}, wants(func(w *preflight.Wants) {
		w.Backup = &preflight.Backup{Region: "eu-central-1", Account: &there, Stack: "recovery"}
	}))
	assert.Equal(t, []string{"recovery"}, there.unprotected)
}
