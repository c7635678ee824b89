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

// unusedObjectQueue is the queue of the bucket's events while no function
// receives them. Its messages expire.
var unusedObjectQueue = queue.Definition{Name: events.ObjectQueue, Visibility: time.Minute}

// definitions returns the queues of the data stack: those that trigger
// functions, and the one of the bucket's events, which exists before any
// function needs it.
func definitions(specs []fn.Spec) []queue.Definition {
	defs := catalog.Queues(specs)
	if _, used := catalog.ObjectsTo(specs); !used {
		defs = append(defs, unusedObjectQueue)
	}
	return defs
}

// objectTrigger returns the events that the queue of the bucket's events
// receives.
func objectTrigger(specs []fn.Spec) fn.ObjectTrigger {
	if spec, used := catalog.ObjectsTo(specs); used {
		return spec.Trigger.Objects
	}
	return fn.ObjectTrigger{Events: []fn.ObjectEvent{fn.ObjectCreated}}
}

// notify configures the bucket to notify its queue of the events that a
// function needs, unless the function receives events of users' buckets. S3
// then sends a test event, so the queue's policy must exist first.
func notify(stack awscdk.Stack, cfg Config, specs []fn.Spec, bucket awss3.CfnBucket) {
	trigger := objectTrigger(specs)
	if trigger.Users {
		return
	}
	var queues []any
	for _, e := range trigger.Events {
		queues = append(queues, &awss3.CfnBucket_QueueConfigurationProperty{
			Event: jsii.String(string(e)), Queue: cfg.queueARN(events.ObjectQueue), Filter: keyFilter(trigger),
		})
	}
	bucket.SetNotificationConfiguration(&awss3.CfnBucket_NotificationConfigurationProperty{QueueConfigurations: queues})
	bucket.AddDependency(queuePolicy(stack, events.ObjectQueue))
}

// keyFilter returns the filter of keys, or nil for all keys.
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

// fromBucket lets S3 send events of this bucket, or of all buckets of the
// account if a function receives events of users' buckets. The condition on the
// account is always needed: another account may take the name of a deleted
// bucket.
func fromBucket(cfg Config, specs []fn.Spec, q awssqs.CfnQueue) statement {
	source := map[string]any{"ArnEquals": map[string]any{"aws:SourceArn": cfg.bucketARN()}}
	if objectTrigger(specs).Users {
		source = map[string]any{"ArnLike": map[string]any{"aws:SourceArn": awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:s3:::*"), nil)}}
	}
	source["StringEquals"] = map[string]any{"aws:SourceAccount": awscdk.Fn_Ref(jsii.String("AWS::AccountId"))}
	return statement{
		id: "Bucket", principal: service("s3"), actions: []string{"sqs:SendMessage"}, resources: []*string{q.AttrArn()}, when: source,
	}
}
