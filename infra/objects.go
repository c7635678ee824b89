package main

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"millrace/events"
	"millrace/functions/catalog"
	"millrace/shared/platform/queue"
	"millrace/shared/web/fn"
)

// untaken is the queue of the bucket's events while no function takes them.
// Nobody receives from it, so messages go when their time is over.
var untaken = queue.Definition{Name: events.ObjectQueue, Visibility: time.Minute}

// definitions are the queues of the data stack: those that feed functions, and
// that of the bucket's events, which is there before there is a function for
// them.
func definitions(specs []fn.Spec) []queue.Definition {
	defs := catalog.Queues(specs)
	if _, taken := catalog.ObjectsTo(specs); !taken {
		defs = append(defs, untaken)
	}
	return defs
}

// told are the events that the queue of the bucket's events gets.
func told(specs []fn.Spec) fn.ObjectTrigger {
	if spec, taken := catalog.ObjectsTo(specs); taken {
		return spec.Trigger.Objects
	}
	return fn.ObjectTrigger{Events: []fn.ObjectEvent{fn.ObjectCreated}}
}

// notify has the bucket tell its queue what a function asks for. S3 tries the
// queue when it is told of it, so the queue's policy comes first.
func notify(stack awscdk.Stack, cfg Config, specs []fn.Spec, bucket awss3.CfnBucket) {
	trigger := told(specs)
	var queues []any
	for _, e := range trigger.Events {
		queues = append(queues, &awss3.CfnBucket_QueueConfigurationProperty{
			Event: jsii.String(string(e)), Queue: cfg.queueARN(events.ObjectQueue), Filter: keyFilter(trigger),
		})
	}
	bucket.SetNotificationConfiguration(&awss3.CfnBucket_NotificationConfigurationProperty{QueueConfigurations: queues})
	bucket.AddDependency(queuePolicy(stack, events.ObjectQueue))
}

// keyFilter is nil if all keys are meant.
func keyFilter(trigger fn.ObjectTrigger) any {
	var rules []any
	for _, rule := range [][2]string{{"prefix", trigger.Prefix}, {"suffix", trigger.Suffix}} {
		if rule[1] != "" {
			rules = append(rules, &awss3.CfnBucket_FilterRuleProperty{Name: jsii.String(rule[0]), Value: jsii.String(rule[1])})
		}
	}
	if len(rules) == 0 {
		return nil
	}
	return &awss3.CfnBucket_NotificationFilterProperty{S3Key: &awss3.CfnBucket_S3KeyFilterProperty{Rules: rules}}
}

// fromBucket lets S3 send to a queue what happens in this bucket. The account is
// named too, as names of buckets are free for others once they are deleted.
func fromBucket(cfg Config, q awssqs.CfnQueue) statement {
	return statement{
		id: "Bucket", principal: service("s3"), actions: []string{"sqs:SendMessage"}, resources: []*string{q.AttrArn()},
		when: map[string]any{
			"ArnEquals":    map[string]any{"aws:SourceArn": cfg.bucketARN()},
			"StringEquals": map[string]any{"aws:SourceAccount": awscdk.Fn_Ref(jsii.String("AWS::AccountId"))},
		},
	}
}
