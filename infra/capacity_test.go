package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/shared/run/tier"
)

func (d deployment) alarm(t *testing.T, id string) object {
	t.Helper()
	a, found := d.operations.named("CloudWatch::Alarm", "AlarmName", d.cfg.name(id))
	require.True(t, found, "there is no alarm %s", id)
	return a.properties
}

// TestAlarmsOfQueuesIgnoreWhatIsHandled checks that the age of messages, which
// grows while one is handled or delayed, is no alarm where this takes minutes.
func TestAlarmsOfQueuesIgnoreWhatIsHandled(t *testing.T) {
	t.Parallel()
	d := deployed(t)
	for _, name := range events.AllQueues() {
		assert.False(t, d.watched("AWS/SQS", "ApproximateAgeOfOldestMessage", "QueueName", d.cfg.queue(name)), name)
		stuck := d.alarm(t, camel(name)+"Stuck")
		assert.Equal(t, "IF(FILL(waiting, 0) > 0 AND FILL(received, 0) == 0, 1, 0)", stuck["Metrics"].([]any)[0].(object)["Expression"])
		assert.True(t, d.watched("AWS/SQS", "NumberOfMessagesReceived", "QueueName", d.cfg.queue(name)), name)
	}
	for _, one := range tier.All() {
		for _, metric := range []string{"QueueDelay", "StartDelay"} {
			a := d.alarm(t, metric+camel(string(one)))
			assert.Equal(t, []any{"p95", nil, "notBreaching"}, []any{a["ExtendedStatistic"], a["Statistic"], a["TreatMissingData"]})
			assert.True(t, d.watched("Millrace/acme/prod", metric, "Tier", string(one)), "%s of %s", metric, one)
		}
	}
}

func TestTickIsWatched(t *testing.T) {
	t.Parallel()
	d := deployed(t)
	lags := d.alarm(t, "SchedulerTickLags")
	assert.Equal(t, "breaching", lags["TreatMissingData"], "a tick that does not come to its end reports nothing")
	assert.Equal(t, "GreaterThanOrEqualToThreshold", lags["ComparisonOperator"])
	assert.EqualValues(t, 2, d.alarm(t, "SchedulerTickErrors")["Threshold"], "of five ticks")
	assert.True(t, d.watched("Millrace/acme/prod", "TickFailures", "Function", "scheduler-tick"))
	assert.Contains(t, d.service.golden(t), `\"max_due\":100000`)
}

func TestFailuresOutsideOfFunctionsAreWatched(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d deployment) {
		rules := 0
		for _, template := range d.templates() {
			for _, r := range template.of("Events::Rule") {
				rules++
				assert.True(t, d.watched("AWS/Events", "FailedInvocations", "RuleName", text(r.properties["Name"])), r.id)
				if r.properties["EventBusName"] != nil {
					assert.Contains(t, text(d.alarm(t, strings.TrimSuffix(r.id, "Rule")+"RuleFails")["Dimensions"]), d.cfg.name("bus"))
				}
			}
		}
		assert.Greater(t, rules, 2)
		for _, one := range tier.All() {
			name := d.cfg.name(sandboxName(one))
			for _, metric := range []string{"Errors", "Invocations", "AsyncEventAge", "AsyncEventsDropped"} {
				assert.True(t, d.watched("AWS/Lambda", metric, "FunctionName", name), "%s of %s", metric, name)
			}
		}
		assert.True(t, d.watched("AWS/WAFV2", "BlockedRequests", "WebACL", d.cfg.name("all")))
		concurrency := d.alarm(t, "AccountConcurrency")
		assert.Contains(t, text(concurrency["Metrics"]), "ClaimedAccountConcurrency")
		assert.True(t, d.watched("AWS/Usage", "ResourceCount", "Resource", "ConcurrentExecutions"))
	})
}

// TestEveryAlarmHasItsRowInTheManual checks that an operator who is woken by an
// alarm finds it in the table of the README.
func TestEveryAlarmHasItsRowInTheManual(t *testing.T) {
	t.Parallel()
	manual, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(manual), "\n## Alarms\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []*regexp.Regexp
	for _, name := range regexp.MustCompile("`([A-Z…][A-Za-z0-9…]+)`").FindAllStringSubmatch(section, -1) {
		rows = append(rows, regexp.MustCompile("^"+strings.ReplaceAll(name[1], "…", ".+")+"$"))
	}
	d := deployed(t)
	for _, a := range d.operations.of("CloudWatch::Alarm") {
		named := false
		for _, row := range rows {
			named = named || row.MatchString(a.id)
		}
		assert.True(t, named, "%s has no row", a.id)
	}
}
