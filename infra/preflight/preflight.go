// Package preflight checks, before anything is made, whether a deployment can be
// made in an account and region: what CloudFormation would only say after some
// minutes of a creation that it then undoes.
package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"millrace/shared/account/identity"
	"millrace/shared/run/tier"
)

// Account is what is asked of AWS, in one region. Errors are those of its
// services, for the operator to read.
type Account interface {
	// ID returns the number of the account that the credentials belong to.
	ID(ctx context.Context) (string, error)
	// Concurrency returns the quota of concurrent executions of functions, and how
	// many of them no function has reserved.
	Concurrency(ctx context.Context) (quota, unreserved int, err error)
	// LargestFunction returns the memory in MB of the account's largest function, 0
	// without functions.
	LargestFunction(ctx context.Context) (int, error)
	// Stack returns a stack's state; the zero Stack if there is none.
	Stack(ctx context.Context, name string) (Stack, error)
	// Unprotect turns the termination protection of a stack off.
	Unprotect(ctx context.Context, name string) error
}

// Stack is the state of a stack.
type Stack struct {
	Status    string // as CloudFormation names it, e.g. ROLLBACK_COMPLETE
	Protected bool   // against termination
}

// failed reports whether the stack's creation failed: there is nothing in it.
func (s Stack) failed() bool { return s.Status == "ROLLBACK_COMPLETE" || s.Status == "ROLLBACK_FAILED" }

// made reports whether there is something in the stack.
func (s Stack) made() bool { return s.Status != "" && s.Status != "REVIEW_IN_PROGRESS" && !s.failed() }

// Wants is what is to be deployed.
type Wants struct {
	Region string
	Tiers  tier.Set
	Issuer string   // of sign-in tokens; empty: a user pool is made
	Stacks []string // names
	Data   string   // name of the stack with the data
	Keys   string   // name of the stack that has the keys if there is a backup in another region
	// Service is the name of the stack with the functions, and Reserves how many
	// concurrent executions they reserve of a quota.
	Service  string
	Reserves func(quota int) int
	Backup   *Backup // nil: none
	// Discover reads the discovery document of Issuer.
	Discover func(ctx context.Context, issuer string) (identity.Discovery, error)
}

// Backup is a backup in another region.
type Backup struct {
	Region  string
	Account Account // in that region
	Stack   string  // name of the stack there
}

// Report is what was found.
type Report struct {
	Account     string   // number; empty: unknown
	Concurrency int      // quota; 0: unknown
	Problems    []string // sentences; with any, the deployment would fail
	Notes       []string // sentences
}

// Quotas of accounts. Those of new accounts are lower, and are raised with use.
const (
	usualConcurrency = 1000
	// reducedMemory is the most memory of a function in MB, where quotas are reduced.
	// No operation tells whether they are.
	reducedMemory = 3008
	// keptUnreserved is what Lambda keeps unreserved in an account.
	keptUnreserved = 100
	// concurrencyCode is the quota of concurrent executions in Service Quotas.
	concurrencyCode = "L-B99A9384"
)

// Check checks a deployment. It changes nothing but the termination protection of
// a stack whose creation failed, if nothing else is in the way.
func Check(ctx context.Context, in Account, wants Wants) Report {
	var r Report
	if !isolatesTenants(wants.Region) {
		r.problem("Lambda has no tenant isolation mode in %s, by which tasks of different workspaces are kept apart: "+
			"choose a commercial region other than Asia Pacific (New Zealand).", wants.Region)
	}
	r.signIn(ctx, wants)
	var err error
	if r.Account, err = in.ID(ctx); err != nil {
		r.problem("The credentials in the environment are of no use in %s: %v. Check the name of the region; an opt-in one has to be enabled for the account.", wants.Region, err)
		return r
	}
	r.capacity(ctx, in, wants)
	r.backup(ctx, in, wants)
	r.stacks(ctx, in, wants.Stacks)
	if wants.Backup != nil {
		r.stacks(ctx, in, []string{wants.Keys})
		r.stacks(ctx, wants.Backup.Account, []string{wants.Backup.Stack})
	}
	return r
}

func (r *Report) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

func (r *Report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// isolatesTenants reports whether Lambda has tenant isolation mode in a region,
// according to its manual: in all commercial ones but one.
func isolatesTenants(region string) bool {
	other := []string{"cn-", "us-gov-", "us-iso", "eu-isoe-", "eusc-"}
	return region != "ap-southeast-6" && !slices.ContainsFunc(other, func(prefix string) bool { return strings.HasPrefix(region, prefix) })
}

// signIn checks a configured identity provider as the service and a browser will
// use it.
func (r *Report) signIn(ctx context.Context, wants Wants) {
	if wants.Issuer == "" {
		return
	}
	d, err := wants.Discover(ctx, wants.Issuer)
	switch {
	case err != nil:
		r.problem("signinIssuer: the identity provider's discovery document cannot be used: %v. "+
			"Give the issuer exactly as its tokens name it, or leave signinIssuer out for a user pool of the deployment.", err)
	case d.Authorize == "" || d.Token == "" || d.Keys == "":
		r.problem("signinIssuer: the discovery document of %s lacks authorization_endpoint, token_endpoint or jwks_uri, without which nobody can sign in.", wants.Issuer)
	}
}

// capacity checks what functions the account may have.
func (r *Report) capacity(ctx context.Context, in Account, wants Wants) {
	var err error
	var unreserved int
	if r.Concurrency, unreserved, err = in.Concurrency(ctx); err != nil {
		r.problem("The account's quotas of Lambda cannot be read: %v. The deploying role needs lambda:GetAccountSettings.", err)
		return
	}
	r.reserves(ctx, in, wants, unreserved)
	if r.Concurrency >= usualConcurrency {
		return
	}
	r.note("The account may run %d functions at once in %s, tasks and requests together; %d are usual. Ask for more: "+
		"aws service-quotas request-service-quota-increase --region %[2]s --service-code lambda --quota-code %[4]s --desired-value %[3]d",
		r.Concurrency, wants.Region, usualConcurrency, concurrencyCode)
	var small tier.Set
	for _, t := range wants.Tiers.All() {
		if t.MemoryMB() <= reducedMemory {
			small = append(small, t)
		}
	}
	if len(small) == len(wants.Tiers.All()) {
		return
	}
	largest, err := in.LargestFunction(ctx)
	if err != nil {
		r.problem("The account's functions cannot be listed: %v. The deploying role needs lambda:ListFunctions.", err)
		return
	}
	if largest > reducedMemory {
		return // its quotas were raised
	}
	r.problem("The account has the reduced quotas of new accounts (%d functions at once), with which a function has %d MB at most: "+
		"these tiers can be deployed now: -c tiers=%s. For the others ask AWS Support (service limit increase, Lambda, function memory in %s), "+
		"which has no quota code.", r.Concurrency, reducedMemory, small, wants.Region)
}

// reserves checks that the functions of a first deployment find the concurrency
// that they reserve: other deployments of the account may have it.
func (r *Report) reserves(ctx context.Context, in Account, wants Wants, unreserved int) {
	if s, err := in.Stack(ctx, wants.Service); err != nil || s.made() {
		return // stacks tells errors
	}
	needs := wants.Reserves(r.Concurrency)
	if needs == 0 || needs+keptUnreserved <= unreserved {
		return
	}
	r.problem("The deployment reserves %d concurrent executions, and of the account's %d in %s only %d are unreserved, of which Lambda keeps %d: "+
		"give each of the account's deployments a percentage, -c share=40, and deploy the others first.",
		needs, r.Concurrency, wants.Region, unreserved, keptUnreserved)
}

// backup checks a backup in another region, which is decided with the first
// deployment: whether a key is a multi-Region one cannot be changed.
func (r *Report) backup(ctx context.Context, in Account, wants Wants) {
	made := map[string]bool{}
	for _, name := range []string{wants.Data, wants.Keys} {
		s, err := in.Stack(ctx, name)
		if err != nil {
			return // stacks says so
		}
		made[name] = s.made()
	}
	switch b := wants.Backup; {
	case b == nil && made[wants.Keys]:
		r.problem("The keys of this deployment are in the stack %s, because it has a backup in another region: give backupRegion as before.", wants.Keys)
		return
	case b == nil:
		return
	case made[wants.Data] && !made[wants.Keys]:
		r.problem("This deployment has keys of %s alone, whose replicas cannot be made afterwards: deploy without backupRegion, "+
			"or move the tenant to a new deployment with it, see \"Recovery in another region\" in infra/README.md.", wants.Region)
		return
	case !isolatesTenants(b.Region):
		r.problem("backupRegion: Lambda has no tenant isolation mode in %s, so the service could not run there.", b.Region)
	}
	if _, err := wants.Backup.Account.ID(ctx); err != nil {
		r.problem("backupRegion: the credentials in the environment are of no use in %s: %v. Check the name of the region; an opt-in one has to be enabled for the account.", wants.Backup.Region, err)
	}
}

// stacks prepares the repetition of a first deployment that failed. The CDK's
// command protects a stack before it creates it, and deletes one whose creation
// failed before it creates it again, which the protection forbids.
func (r *Report) stacks(ctx context.Context, in Account, names []string) {
	for _, name := range names {
		s, err := in.Stack(ctx, name)
		if err != nil {
			r.problem("The stack %s cannot be read: %v. The deploying role needs cloudformation:DescribeStacks.", name, err)
			return
		}
		if !s.failed() {
			continue
		}
		if s.Status == "ROLLBACK_FAILED" {
			r.note("The creation of %s failed and could not be undone: if it cannot be deleted now either, see \"A first deployment that failed\" in infra/README.md.", name)
		}
		if !s.Protected || len(r.Problems) > 0 {
			continue
		}
		if err := in.Unprotect(ctx, name); err != nil {
			r.problem("The termination protection of %s, whose creation failed, cannot be turned off: %v. The deploying role needs cloudformation:UpdateTerminationProtection.", name, err)
			return
		}
		r.note("The creation of %s failed before: its termination protection was turned off, so that it can be deleted and created again. The deployment turns it on again.", name)
	}
}
