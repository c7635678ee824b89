package sqs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"millrace/shared/platform/queue"
)

// maxName is SQS's limit for a queue name.
const maxName = 80

// Message retention: four days for work, and SQS's maximum for dead letters,
// which wait for an operator.
const (
	retention     = 4 * 24 * time.Hour
	deadRetention = 14 * 24 * time.Hour
)

// CreateQueues creates the queues and their dead-letter queues under prefix, or
// updates the attributes of existing ones. It is for emulators and tests; a
// deployment's stack creates its own queues. Errors: queue.ErrLimit for an
// invalid definition or prefix.
func CreateQueues(ctx context.Context, client *sqs.Client, prefix string, defs []queue.Definition) error {
	for _, def := range defs {
		if err := def.Check(); err != nil {
			return err
		}
		if name := prefix + queue.Dead(def.Name); len(name) > maxName {
			return fmt.Errorf("%w: queue name %q of %d characters, %d allowed", queue.ErrLimit, name, len(name), maxName)
		}
	}
	for _, def := range defs {
		attributes := map[string]string{
			string(types.QueueAttributeNameVisibilityTimeout):      strconv.Itoa(int(seconds(def.Visibility))),
			string(types.QueueAttributeNameMaximumMessageSize):     strconv.Itoa(queue.MaxBody),
			string(types.QueueAttributeNameMessageRetentionPeriod): strconv.Itoa(int(seconds(deadRetention))),
		}
		dead, err := create(ctx, client, prefix+queue.Dead(def.Name), attributes)
		if err != nil {
			return err
		}
		out, err := client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
			QueueUrl: dead, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameQueueArn},
		})
		if err != nil {
			return fmt.Errorf("sqs: read attributes of %s: %w", prefix+queue.Dead(def.Name), err)
		}
		policy, err := json.Marshal(map[string]any{
			"deadLetterTargetArn": out.Attributes[string(types.QueueAttributeNameQueueArn)],
			"maxReceiveCount":     queue.MaxReceives,
		})
		if err != nil {
			return err
		}
		attributes[string(types.QueueAttributeNameMessageRetentionPeriod)] = strconv.Itoa(int(seconds(retention)))
		attributes[string(types.QueueAttributeNameRedrivePolicy)] = string(policy)
		if _, err := create(ctx, client, prefix+def.Name, attributes); err != nil {
			return err
		}
	}
	return nil
}

// create creates a queue, or updates the attributes of the existing queue of
// that name.
func create(ctx context.Context, client *sqs.Client, name string, attributes map[string]string) (url *string, err error) {
	made, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err == nil {
		return made.QueueUrl, nil
	}
	if _, exists := errors.AsType[*types.QueueNameExists](err); !exists {
		return nil, fmt.Errorf("sqs: create queue %s: %w", name, err)
	}
	found, err := client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(name)})
	if err != nil {
		return nil, fmt.Errorf("sqs: look up %s: %w", name, err)
	}
	if _, err := client.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: found.QueueUrl, Attributes: attributes}); err != nil {
		return nil, fmt.Errorf("sqs: set attributes of %s: %w", name, err)
	}
	return found.QueueUrl, nil
}
