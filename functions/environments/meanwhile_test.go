package environments_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/table"
	"millrace/shared/run/registry/registrytest"
)

// meanwhile is a table that another request comes between: its part is done before
// the next transaction, or the next deletion of an item.
type meanwhile struct {
	table.Table
	transact, remove func()
}

func once(do *func()) {
	if other := *do; other != nil {
		*do = nil
		other()
	}
}

func (m *meanwhile) Transact(ctx context.Context, writes ...table.Write) error {
	once(&m.transact)
	return m.Table.Transact(ctx, writes...)
}

func (m *meanwhile) Delete(ctx context.Context, del table.Delete) error {
	once(&m.remove)
	return m.Table.Delete(ctx, del)
}

// TestWhatHappensMeanwhile lets another request come between a request's reads and
// its transaction: it is as if it had come before.
func TestWhatHappensMeanwhile(t *testing.T) {
	t.Parallel()
	type request struct {
		method, path string
		body         any
		want         int
	}
	promote := func(want int) request {
		return request{"POST", "/environments/promote", object{"source": "staging", "target": "production", "variables": []string{}}, want}
	}
	deploy := func(name, environment string) request {
		return request{"POST", "/deployments", object{"deployment_name": name, "flow_name": "etl", "flow_version": "1", "environment": environment}, 200}
	}
	make := request{"POST", "/environments", object{"name": "new"}, 201}
	remove := request{"DELETE", "/environments/new", nil, 200}
	run := request{"POST", "/runs", object{"flow_name": "etl", "flow_version": "1", "environment": "new"}, 200}
	secret := request{"POST", "/secrets", object{"name": "S", "value": "x", "environment": "new"}, 201}
	refused := func(r request, want int) request { r.want = want; return r }
	for name, c := range map[string]struct {
		first     request // its reads and its transaction
		meanwhile []request
		there     bool // the environment new, in the end
	}{
		"a secret, and its environment is deleted":          {refused(secret, 422), []request{remove}, false},
		"a secret, and its environment is another":          {secret, []request{remove, make}, true},
		"a run, and its environment is deleted":             {refused(run, 422), []request{remove}, false},
		"a deployment, and its environment is deleted":      {deploy("d", "new"), []request{remove}, true},
		"a deletion, and a run comes":                       {refused(remove, 409), []request{run}, true},
		"a deletion, and a deployment comes":                {refused(remove, 409), []request{deploy("d", "new")}, true},
		"a deletion, and a secret comes":                    {remove, []request{secret}, false},
		"a promotion, and a deployment of it is moved":      {promote(409), []request{{"PUT", "/deployments/etl-production/settings", object{"environment": "new"}, 200}}, true},
		"a promotion, and a deployment that it makes comes": {promote(409), []request{deploy("load-production", "production")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			between := &meanwhile{}
			w := furnished(t, localtest.Options{Wrap: func(inner table.Table) table.Table {
				between.Table = inner
				return between
			}})
			w.create(t, "new")
			send := func(r request) { w.do(t, r.method, r.path, r.body).Require(t, r.want) }
			before := w.AuditCount(t, w.A.OrgID)
			between.transact = func() {
				for _, r := range c.meanwhile {
					send(r)
				}
			}
			send(c.first)
			require.Nil(t, between.transact)
			changes := len(c.meanwhile)
			if c.first.want < 300 {
				changes++
			}
			assert.GreaterOrEqual(t, w.AuditCount(t, w.A.OrgID)-before, changes)
			code := map[bool]int{true: 200, false: 404}[c.there]
			w.do(t, "GET", "/environments/new", nil).Require(t, code)
			w.do(t, "GET", "/environments/new/variables", nil).Require(t, code)
			if !c.there {
				assert.Empty(t, w.do(t, "GET", "/secrets", nil).Items(t))
				assert.Empty(t, w.do(t, "GET", "/runs?since="+w.Clock.Now().Add(-time.Hour).Format(time.RFC3339), nil).Require(t, 200).Items(t))
			}
		})
	}
}

// TestSecretsOfANewEnvironmentStay, although the deletion of the one before it, which
// was slow, is still about to delete a secret of the same name.
func TestSecretsOfANewEnvironmentStay(t *testing.T) {
	t.Parallel()
	between := &meanwhile{}
	w := open(t, localtest.Options{Wrap: func(inner table.Table) table.Table {
		between.Table = inner
		return between
	}})
	w.create(t, "prod")
	secret := object{"name": "S", "value": "x", "environment": "prod"}
	w.do(t, "POST", "/secrets", secret).Require(t, 201)
	between.remove = func() {
		w.create(t, "prod") // deletes what is left of the one before
		w.do(t, "POST", "/secrets", secret).Require(t, 201)
	}
	_, err := w.store.DeleteEnvironment(registrytest.As(w.A.OrgID), "prod")
	require.NoError(t, err)
	w.do(t, "GET", "/secrets/S?environment=prod", nil).Require(t, 200)
}

// TestUseIsOfTheEnvironment: what is in use elsewhere, or by another workspace,
// keeps no environment.
func TestUseIsOfTheEnvironment(t *testing.T) {
	t.Parallel()
	w := open(t, localtest.Options{})
	w.create(t, "dev", "prod")
	w.do(t, "POST", "/runs", object{"flow_name": "etl", "flow_version": "1", "environment": "prod"}).Require(t, 200)
	w.Do(t, w.B.Key, "POST", "/environments", object{"name": "prod"}).Require(t, 201)
	w.Do(t, w.B.Key, "DELETE", "/environments/prod", nil).Require(t, 200)
	w.do(t, "DELETE", "/environments/dev", nil).Require(t, 200)
	w.do(t, "DELETE", "/environments/prod", nil).Require(t, 409)
}

// TestSecretsOfADeletionMeanwhileAreNotTakenOver: while an environment is made,
// another request makes and deletes one of the name, and is cut short.
func TestSecretsOfADeletionMeanwhileAreNotTakenOver(t *testing.T) {
	t.Parallel()
	between := &meanwhile{}
	var faults *registrytest.Faults
	w := open(t, localtest.Options{Wrap: func(inner table.Table) table.Table {
		faults = registrytest.Wrap(inner)
		between.Table = faults
		return between
	}})
	w.create(t, "other") // default is stored
	secret := object{"name": "S", "value": "x", "environment": "prod"}
	between.transact = func() {
		w.create(t, "prod")
		w.do(t, "POST", "/secrets", secret).Require(t, 201)
		faults.Break(1, registrytest.Before) // the environment goes, its secret stays
		w.do(t, "DELETE", "/environments/prod", nil).Require(t, 500)
		require.True(t, faults.Heal())
	}
	w.create(t, "prod")
	w.do(t, "GET", "/secrets/S?environment=prod", nil).Require(t, 404)
	w.do(t, "POST", "/secrets", secret).Require(t, 201)
	assert.Len(t, w.do(t, "GET", "/secrets", nil).Items(t), 1)
}
