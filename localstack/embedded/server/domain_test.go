package server

import (
	"testing"

	"millrace/events"
	"millrace/functions/catalog"
	"millrace/localstack/client"
	"millrace/localstack/proof/fixture/reminders"
	"millrace/localstack/proof/fixture/remindertest"
)

// TestDomainInCatalogIsServed uses a domain that is one folder and one line of
// a catalog. A process can run one server at a time, so the test is not
// parallel.
func TestDomainInCatalogIsServed(t *testing.T) {
	s := openWith(t, catalog.With(reminders.Specs...))
	c := s.Credentials()
	remindertest.Exercise(t, remindertest.Service{
		Client: &client.Client{BaseURL: c.BaseURL, Token: c.APIKey}, Org: c.OrgID, Table: s.deps.Table,
		Tick: func() events.SchedulerTickResult { return tick(t, s, `{"event_type":"scheduler_tick"}`) },
	})
}
