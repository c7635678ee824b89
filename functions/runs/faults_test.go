package runs_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/table"
)

// contended is a table whose next transactions conflict with another.
type contended struct {
	table.Table
	conflicts atomic.Int32
}

func (c *contended) Transact(ctx context.Context, writes ...table.Write) error {
	if c.conflicts.Add(-1) >= 0 {
		reasons := make([]table.Reason, len(writes))
		reasons[len(reasons)-1].Err = table.ErrConflict
		return &table.TransactionError{Reasons: reasons}
	}
	return c.Table.Transact(ctx, writes...)
}

func TestContention(t *testing.T) {
	t.Parallel()
	var c *contended
	w := idle(t, localtest.Options{Log: discard, Wrap: func(inner table.Table) table.Table {
		c = &contended{Table: inner}
		return c
	}})
	w.flow(t, "etl", "1", chain)
	const body = `{"flow_name":"etl","flow_version":"1"}`
	before := w.AuditCount(t, w.A.OrgID)

	c.conflicts.Store(1)
	assert.Equal(t, 409, w.post(t, "k", body).Code, "the first request of the key is still being accepted")
	c.conflicts.Store(1)
	res := w.Do(t, w.A.Key, "POST", "/runs", body)
	assert.Equal(t, 503, res.Code)
	assert.NotEmpty(t, res.Header.Get("Retry-After"))
	assert.Empty(t, w.list(t, ""))
	assert.Equal(t, before, w.AuditCount(t, w.A.OrgID))

	id := w.post(t, "k", body).Require(t, 200).String(t, "run_id")
	c.conflicts.Store(3)
	assert.Equal(t, "cancelled", w.Do(t, w.A.Key, "POST", "/runs/"+id+"/cancel", nil).Require(t, 200).String(t, "status"), "cancel tries again by itself")
	assert.Equal(t, "CANCELLED", w.get(t, id).Status)
	other := w.run(t, object{"flow_name": "etl", "flow_version": "1"})
	c.conflicts.Store(100)
	w.Do(t, w.A.Key, "POST", "/runs/"+other+"/cancel", nil).Require(t, 503)
	assert.Equal(t, before+3, w.AuditCount(t, w.A.OrgID))
}
