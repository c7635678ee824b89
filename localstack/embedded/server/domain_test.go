package server

import (
	"testing"

	"millrace/events"
	"millrace/functions/catalog"
	"millrace/localstack/client"
	"millrace/localstack/proof/fixture/reminders"
	"millrace/localstack/proof/fixture/remindertest"
)

// TestDomainIsServedOnceItStandsInTheCatalog uses a domain that is one folder and
// one line of a catalog. As a process can run one server at a time, the test is not
// parallel.
func TestDomainIsServedOnceItStandsInTheCatalog(t *testing.T) {
	s := openWith(t, catalog.With(reminders.Specs...))
	c := s.Credentials()
	remindertest.Exercise(t, remindertest.Service{
		Client: &client.Client{BaseURL: c.BaseURL, Token: c.APIKey}, Org: c.OrgID, Table: s.deps.Table,
		Tick: func() events.SchedulerTickResult { return tick(t, s, `{"event_type":"scheduler_tick"}`) },
	})
}
