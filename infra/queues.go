package main

import (
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"millrace/events"
	"millrace/functions/catalog"
	"millrace/shared/platform/bus"
	"millrace/shared/platform/queue"
	"millrace/shared/web/fn"
)

// Message retention: four days for work, and SQS's maximum for dead letters,
// which wait for an operator.
const (
	retention     = 4 * 24 * time.Hour
	deadRetention = 14 * 24 * time.Hour
	dataKeyReuse  = time.Hour // reuse of a data key; KMS bills by request
)

// functionTimeouts is the visibility timeout of a message as a multiple of its
// function's timeout. Lambda recommends six, because it may hold a received
// message while the function is throttled.
const functionTimeouts = 6

// feeds returns the function that each queue triggers.
func feeds(specs []fn.Spec) map[string]fn.Spec {
	out := map[string]fn.Spec{}
	for _, s := range specs {
		for _, q := range s.Trigger.Queues {
			out[q.Queue] = s
		}
		for _, kind := range s.Trigger.Due {
			out[kind.Queue()] = s
		}
		if len(s.Trigger.DetailTypes) > 0 {
			out[catalog.BusQueue(s)] = s
		}
		if len(s.Trigger.Objects.Events) > 0 {
			out[events.ObjectQueue] = s
		}
	}
	return out
}

// visibility returns the visibility timeout of a queue that triggers a function.
func visibility(def queue.Definition, function fn.Spec) time.Duration {
	return min(max(def.Visibility, functionTimeouts*function.Timeout), queue.MaxExtend)
}

// addQueues adds the deployment's queues, each with its dead-letter queue.
func addQueues(stack awscdk.Stack, cfg Config, specs []fn.Spec, key *string) {
	fed := feeds(specs)
	for _, def := range definitions(specs) {
		props := func(name string, retention time.Duration) *awssqs.CfnQueueProps {
			return &awssqs.CfnQueueProps{
				QueueName:                    jsii.String(cfg.queue(name)),
				MaximumMessageSize:           jsii.Number(queue.MaxBody),
				MessageRetentionPeriod:       jsii.Number(retention.Seconds()),
				VisibilityTimeout:            jsii.Number(visibility(def, fed[def.Name]).Seconds()),
				KmsMasterKeyId:               key,
				KmsDataKeyReusePeriodSeconds: jsii.Number(dataKeyReuse.Seconds()),
			}
		}
		id := camel(def.Name) + "Queue"
		deadProps := props(queue.Dead(def.Name), deadRetention)
		deadProps.RedriveAllowPolicy = map[string]any{
			"redrivePermission": "byQueue", "sourceQueueArns": []any{cfg.queueARN(def.Name)},
		}
		dead := awssqs.NewCfnQueue(stack, jsii.String("Dead"+id), deadProps)
		cfg.keep(dead)
		mainProps := props(def.Name, retention)
		mainProps.RedrivePolicy = map[string]any{"deadLetterTargetArn": dead.AttrArn(), "maxReceiveCount": queue.MaxReceives}
		q := awssqs.NewCfnQueue(stack, jsii.String(id), mainProps)
		cfg.keep(q)
		addQueuePolicy(stack, dead, "Dead"+id, onlyTLS("sqs:*", dead.AttrArn()))
		statements := []statement{onlyTLS("sqs:*", q.AttrArn())}
		if spec := fed[def.Name]; len(spec.Trigger.DetailTypes) > 0 && def.Name == catalog.BusQueue(spec) {
			statements = append(statements, statement{
				id: "BusRule", principal: service("events"), actions: []string{"sqs:SendMessage"}, resources: []*string{q.AttrArn()},
				when: map[string]any{"ArnEquals": map[string]any{"aws:SourceArn": arn("events", "rule/"+cfg.name("bus")+"/"+cfg.name(spec.Name))}},
			})
		}
		if def.Name == events.ObjectQueue {
			statements = append(statements, fromBucket(cfg, specs, q))
		}
		addQueuePolicy(stack, q, id, statements...)
	}
}

func addQueuePolicy(stack awscdk.Stack, q awssqs.CfnQueue, id string, statements ...statement) {
	awssqs.NewCfnQueuePolicy(stack, jsii.String(id+"Policy"), &awssqs.CfnQueuePolicyProps{
		Queues: &[]*string{q.Ref()}, PolicyDocument: document(statements...),
	})
}

// queuePolicy returns the policy of a queue. Resources that send to the queue
// depend on it.
func queuePolicy(stack awscdk.Stack, queue string) awssqs.CfnQueuePolicy {
	return stack.Node().FindChild(jsii.String(camel(queue) + "QueuePolicy")).(awssqs.CfnQueuePolicy)
}

// addBusRules adds rules that send the events that functions need to their
// queues.
func addBusRules(stack awscdk.Stack, cfg Config, specs []fn.Spec, from awsevents.CfnEventBus) {
	for _, s := range specs {
		if len(s.Trigger.DetailTypes) == 0 {
			continue
		}
		queue := catalog.BusQueue(s)
		rule := awsevents.NewCfnRule(stack, jsii.String(camel(s.Name)+"Rule"), &awsevents.CfnRuleProps{
			Name: jsii.String(cfg.name(s.Name)), EventBusName: from.Ref(), Description: jsii.String(s.Doc),
			EventPattern: eventPattern(s.Trigger),
			Targets:      []any{&awsevents.CfnRule_TargetProperty{Id: jsii.String("queue"), Arn: cfg.queueARN(queue)}},
		})
		rule.AddDependency(queuePolicy(stack, queue))
	}
}

// eventPattern selects the events that a trigger needs. The event's own detail
// is a part of the detail on the bus (package bus).
func eventPattern(trigger fn.Trigger) map[string]any {
	out := map[string]any{"source": []string{bus.Source}, "detail-type": trigger.DetailTypes}
	if len(trigger.DetailWhere) > 0 {
		out["detail"] = map[string]any{"data": trigger.DetailWhere}
	}
	return out
}

// camel converts the name of a function or queue to a part of a logical id:
// "tasks-nano" to TasksNano. A logical id never changes unless the name does.
func camel(name string) string {
	var b strings.Builder
	for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '-' || r == '_' }) {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}
