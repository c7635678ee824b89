package resources

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"millrace/localstack/cloud/template"
)

func (m *maker) bus(ctx context.Context, r *template.Resource, properties map[string]any) (template.Attributes, error) {
	p, err := decode[struct{ Name string }](properties, "Description", "KmsKeyIdentifier", "DeadLetterConfig", "LogConfig")
	if err != nil {
		return template.Attributes{}, err
	}
	if _, err := m.EventBridge.CreateEventBus(ctx, &eventbridge.CreateEventBusInput{Name: &p.Name}); err != nil {
		return template.Attributes{}, err
	}
	m.made(r, p.Name)
	return template.Attributes{Ref: p.Name, Att: map[string]string{"Arn": m.arn("events", "event-bus/"+p.Name), "Name": p.Name}}, nil
}

type ruleTarget struct {
	ID, Arn, Input string
	// Nothing is lost between the services of one machine.
	RetryPolicy, DeadLetterConfig any
}

type ruleProperties struct {
	Name, EventBusName string
	EventPattern       map[string]any
	ScheduleExpression string
	State              string
	Targets            []ruleTarget
}

// rule makes a rule of a bus, or describes one that fires by the clock.
func (m *maker) rule(ctx context.Context, r *template.Resource, properties map[string]any) (template.Attributes, error) {
	p, err := decode[ruleProperties](properties, "Description", "RoleArn")
	if err != nil {
		return template.Attributes{}, err
	}
	p.Name = cmp.Or(p.Name, r.PhysicalName())
	at := "rule/" + p.Name
	if p.EventBusName != "" {
		at = "rule/" + p.EventBusName + "/" + p.Name
	}
	out := template.Attributes{Ref: p.Name, Att: map[string]string{"Arn": m.arn("events", at)}}
	switch {
	case p.State != "" && p.State != string(types.RuleStateEnabled):
		return out, nil
	case p.ScheduleExpression != "" && p.EventPattern == nil:
		return out, m.schedule(p)
	case p.EventPattern == nil || p.ScheduleExpression != "":
		return out, errors.New("a rule has either a pattern or a schedule")
	}
	return out, m.busRule(ctx, r, p)
}

// schedule notes what a rule fires, which are functions alone.
func (m *maker) schedule(p ruleProperties) error {
	every, err := interval(p.ScheduleExpression)
	if err != nil {
		return err
	}
	for _, t := range p.Targets {
		if !strings.HasPrefix(t.Arn, m.arn("lambda", "function:")) {
			return fmt.Errorf("the schedule's target %s is no function", t.Arn)
		}
		m.out.Schedules = append(m.out.Schedules, Schedule{Name: p.Name, Every: every, Function: functionName(t.Arn), Input: orNil(t.Input)})
	}
	return nil
}

func orNil(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

var rate = regexp.MustCompile(`^rate\((\d+) (minute|hour|day)s?\)$`)

// interval is the time between the firings of a schedule.
func interval(expression string) (time.Duration, error) {
	match := rate.FindStringSubmatch(expression)
	if match == nil {
		return 0, fmt.Errorf("the schedule %q is not known here: rate(…) is", expression)
	}
	n, err := strconv.Atoi(match[1])
	if err != nil || n < 1 {
		return 0, fmt.Errorf("the schedule %q has no interval", expression)
	}
	unit := map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}[match[2]]
	return time.Duration(n) * unit, nil
}

// busRule makes a rule. What it sends to a function goes through a queue that is
// no part of the template, since the functions do not run in the services.
func (m *maker) busRule(ctx context.Context, r *template.Resource, p ruleProperties) error {
	pattern, err := json.Marshal(p.EventPattern)
	if err != nil {
		return err
	}
	var bus *string
	if p.EventBusName != "" {
		bus = &p.EventBusName
	}
	if _, err := m.EventBridge.PutRule(ctx, &eventbridge.PutRuleInput{
		Name: &p.Name, EventBusName: bus, EventPattern: aws.String(string(pattern)), State: types.RuleStateEnabled,
	}); err != nil {
		return err
	}
	in := &eventbridge.PutTargetsInput{Rule: &p.Name, EventBusName: bus}
	for _, t := range p.Targets {
		target := types.Target{Id: aws.String(t.ID), Arn: aws.String(t.Arn)}
		switch {
		case strings.HasPrefix(t.Arn, m.arn("sqs", "")):
			if t.Input != "" {
				target.Input = &t.Input
			}
		case strings.HasPrefix(t.Arn, m.arn("lambda", "function:")):
			queue := p.Name + "-to-" + t.ID
			if _, err := m.SQS.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &queue}); err != nil {
				return err
			}
			target.Arn = aws.String(m.arn("sqs", queue))
			m.out.Mappings = append(m.out.Mappings, Mapping{
				Queue: queue, Function: functionName(t.Arn), Batch: 1, Rule: true, Input: orNil(t.Input),
			})
		default:
			return fmt.Errorf("the rule's target %s is neither a queue nor a function", t.Arn)
		}
		in.Targets = append(in.Targets, target)
	}
	out, err := m.EventBridge.PutTargets(ctx, in)
	if err != nil {
		return err
	}
	if len(out.FailedEntries) > 0 {
		return fmt.Errorf("a target was refused: %s", aws.ToString(out.FailedEntries[0].ErrorMessage))
	}
	m.made(r, p.Name)
	return nil
}
