package resources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"

	"millrace/localstack/cloud/template"
)

func (m *maker) bus(ctx context.Context, p eventbridge.CreateEventBusInput) (template.Attributes, error) {
	if _, err := m.EventBridge.CreateEventBus(ctx, &p); err != nil {
		return template.Attributes{}, err
	}
	return template.Attributes{Ref: *p.Name, ARN: m.arn("events", "event-bus/"+*p.Name)}, nil
}

type ruleProperties struct {
	Name, EventBusName string
	EventPattern       json.RawMessage
	ScheduleExpression string
	Targets            []struct {
		ID, Arn, Input string
		RetryPolicy    any // not needed between the services of one machine
	}
}

// rule creates a bus rule that sends events to queues, or describes a scheduled
// rule that invokes functions.
func (m *maker) rule(ctx context.Context, p ruleProperties) (template.Attributes, error) {
	out := template.Attributes{Ref: p.Name, ARN: m.arn("events", path.Join("rule", p.EventBusName, p.Name))}
	switch {
	case p.EventPattern != nil && p.ScheduleExpression == "":
		return out, m.busRule(ctx, p)
	case p.EventPattern != nil || p.ScheduleExpression != "rate(1 minute)":
		return out, fmt.Errorf("the schedule %q is not known here, with an event pattern none is", p.ScheduleExpression)
	}
	for _, t := range p.Targets {
		if t.Input == "" {
			return out, errors.New("a rule that fires by the clock has an input for its target")
		}
		m.out.Schedules = append(m.out.Schedules, Schedule{Name: p.Name, Function: m.functionName(t.Arn), Input: json.RawMessage(t.Input)})
	}
	return out, nil
}

func (m *maker) busRule(ctx context.Context, p ruleProperties) error {
	in := &eventbridge.PutTargetsInput{Rule: &p.Name, EventBusName: &p.EventBusName}
	for _, t := range p.Targets {
		if _, err := m.queueName(t.Arn); err != nil {
			return err
		}
		if t.Input != "" {
			return errors.New("a target of a bus rule gets the event, no input")
		}
		in.Targets = append(in.Targets, types.Target{Id: &t.ID, Arn: &t.Arn})
	}
	if _, err := m.EventBridge.PutRule(ctx, &eventbridge.PutRuleInput{
		Name: &p.Name, EventBusName: &p.EventBusName, EventPattern: aws.String(string(p.EventPattern)),
	}); err != nil {
		return err
	}
	out, err := m.EventBridge.PutTargets(ctx, in)
	if err == nil && len(out.FailedEntries) > 0 {
		err = fmt.Errorf("a target was refused: %s", aws.ToString(out.FailedEntries[0].ErrorMessage))
	}
	return err
}
