// Package localtest is the test kit of the domains: the real router on the
// embedded drivers, with two workspaces, their keys and users, and a clock that
// a test can move.
//
// Everything except the object store works inside a testing/synctest bubble if
// the Env is opened there.
package localtest

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/localstack/embedded/pebbletable"
	"millrace/localstack/embedded/signin"
	"millrace/localstack/embedded/store"
	"millrace/localstack/proof/fixture"
	"millrace/localstack/proof/memory"
	"millrace/shared/account/identity"
	"millrace/shared/account/quota"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/bus"
	"millrace/shared/platform/keyring"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/signature"
	"millrace/shared/platform/table"
	"millrace/shared/platform/telemetry"
	"millrace/shared/platform/vault"
	"millrace/shared/platform/vault/keyfile"
	"millrace/shared/run/sandbox"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// BaseURL is the service's address in tokens and links.
const BaseURL = "http://millrace.test"

// SuperAdmin is the email of the Env's platform administrator.
const SuperAdmin = "root@platform.test"

// Visibility is the visibility time-out of the Env's queues.
const Visibility = 30 * time.Second

// Options configure an Env. The zero Options are the defaults.
type Options struct {
	Table   table.Table     // nil: the embedded one, in memory
	Queues  queue.Queues    // nil: the embedded ones
	Blob    blob.Store      // nil: a real object store, started on first use
	Locked  blob.Store      // nil: there are no copies of audit digests
	Bus     bus.Bus         // nil: a recorder, the Env's Bus
	Sandbox sandbox.Sandbox // nil: none
	Vault   vault.Vault     // nil: one with new keys
	Config  fn.Config
	Limits  []string           // name=value of limits that differ from the defaults of package quota
	Chance  func(int64) int64  // draws the sizes of slices of limits; nil: random
	Log     *slog.Logger       // nil: the test's output
	Metrics *telemetry.Metrics // nil: nothing is measured
	Waiting fn.Waiting         // nil: tasks never wait
	// Wrap wraps the table (for faults, counts). The Env's own set-up uses it,
	// too. May be nil.
	Wrap func(table.Table) table.Table
}

// Workspace is a workspace of an Env.
type Workspace struct {
	OrgID string
	Name  string
	Owner string // email
	Key   string // API key with full access
}

// Env is the service as seen by one test: its own table, queues and bus, and
// the operations of its specs.
type Env struct {
	API    *httpapi.API
	Deps   fn.Deps // given to the specs; Table, Queues, Blob … to bypass the API
	Clock  *Clock
	Bus    *Bus // records every published event
	Issuer *signin.Issuer
	A, B   Workspace // unrelated workspaces
	db     *store.DB // of the embedded table; nil with a table of the options
}

// New opens an Env with the operations of the specs.
func New(t testing.TB, specs ...fn.Spec) *Env {
	t.Helper()
	return Open(t, Options{}, specs...)
}

// Open is New with options.
func Open(t testing.TB, o Options, specs ...fn.Spec) *Env {
	t.Helper()
	dir := t.TempDir()
	env := &Env{Clock: &Clock{}, Bus: &Bus{}}
	if o.Log == nil {
		o.Log = telemetry.NewLogger(t.Output(), telemetry.Text, slog.LevelWarn)
	}
	if o.Blob == nil {
		o.Blob = newObjects(t)
	}

	if o.Table == nil || o.Queues == nil {
		env.embed(t, &o, specs)
	}
	if o.Bus == nil {
		o.Bus = env.Bus
	}
	tbl := o.Table
	if o.Wrap != nil {
		tbl = o.Wrap(tbl)
	}

	var err error
	env.Issuer, err = signin.Open(dir, BaseURL, env.Clock)
	require.NoError(t, err)
	verifier, err := env.Issuer.Verifier()
	require.NoError(t, err)
	values, err := quota.ParseValues(o.Limits)
	require.NoError(t, err)
	if o.Vault == nil {
		o.Vault, err = keyfile.Open(filepath.Join(dir, "vault.key"))
		require.NoError(t, err)
	}
	private, err := signature.NewKey()
	require.NoError(t, err)
	signer, err := signature.NewLocal(private)
	require.NoError(t, err)
	service, err := catalog.Assemble(specs, fn.Deps{
		Table: tbl, Queues: o.Queues, Blob: o.Blob, Bus: o.Bus, Sandbox: o.Sandbox, Vault: o.Vault, Signer: signer, Locked: o.Locked, Waiting: o.Waiting,
		Clock: env.Clock, Log: o.Log, Metrics: o.Metrics, Config: o.Config,
		Quota: quota.New(quota.Config{Table: tbl, Clock: env.Clock, Log: o.Log, Values: values, Chance: o.Chance}),
	}, catalog.Settings{
		SignIn: verifier, SuperAdmins: []string{SuperAdmin}, CursorKeys: keyring.Static([]byte("a key that signs the cursors of tests")), Traces: o.Blob,
	})
	require.NoError(t, err)
	env.Deps = service.Deps
	t.Cleanup(func() { require.NoError(t, env.Deps.Logs.Close(context.Background())) })
	env.API = service.API()
	env.A = env.Workspace(t, "Workspace A", "owner@a.test")
	env.B = env.Workspace(t, "Workspace B", "owner@b.test")
	return env
}

// embed opens in-memory embedded drivers for the table and queues that are not
// given.
func (env *Env) embed(t testing.TB, o *Options, specs []fn.Spec) {
	t.Helper()
	db := memory.Store(t)
	if o.Table == nil {
		env.db, o.Table = db, pebbletable.New(db, env.Clock)
	}
	if o.Queues == nil {
		o.Queues = memory.QueuesIn(t, db, env.Clock, Queues(specs...))
	}
}

// Queues returns the service's queues, including those for the timed work and the
// bus events of specs.
func Queues(specs ...fn.Spec) []queue.Definition {
	defs := fixture.Queues(Visibility)
	for _, spec := range specs {
		for _, kind := range spec.Trigger.Due {
			defs = append(defs, queue.Definition{Name: kind.Queue(), Visibility: Visibility})
		}
		if len(spec.Trigger.DetailTypes) > 0 {
			defs = append(defs, queue.Definition{Name: catalog.BusQueue(spec), Visibility: Visibility})
		}
	}
	return defs
}

// Workspace creates a workspace with an owner and a full-access key.
func (env *Env) Workspace(t testing.TB, name, owner string) Workspace {
	t.Helper()
	ctx := tenant.With(context.Background(), tenant.Principal{Email: owner, Role: tenant.Owner})
	w, err := identity.CreateWorkspace(ctx, env.Deps.Table, env.Clock.Now(), name, owner)
	require.NoError(t, err)
	out := Workspace{OrgID: w.OrgID, Name: name, Owner: owner}
	out.Key = env.Key(t, out)
	return out
}
