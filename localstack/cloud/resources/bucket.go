package resources

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"millrace/localstack/cloud/template"
)

type bucketProperties struct {
	BucketName              *string
	VersioningConfiguration types.VersioningConfiguration
	ObjectLockEnabled       *bool
	ObjectLockConfiguration *struct {
		ObjectLockEnabled types.ObjectLockEnabled
		Rule              *types.ObjectLockRule
	}
	LifecycleConfiguration struct {
		Rules []struct {
			types.LifecycleRule
			ExpiredObjectDeleteMarker *bool
			ExpirationInDays          *int32
			Prefix                    string
		}
	}
	CorsConfiguration struct {
		CorsRules []struct {
			AllowedHeaders, AllowedMethods, AllowedOrigins, ExposedHeaders []string
			MaxAge                                                         *int32
		}
	}
	NotificationConfiguration struct {
		QueueConfigurations []struct {
			Event  types.Event
			Queue  string
			Filter *struct {
				S3Key struct{ Rules []types.FilterRule }
			}
		}
	}
}

// bucket creates a bucket that notifies queues of object events.
func (m *maker) bucket(ctx context.Context, p bucketProperties) (template.Attributes, error) {
	var lifecycle types.BucketLifecycleConfiguration
	for _, r := range p.LifecycleConfiguration.Rules {
		r.Filter = &types.LifecycleRuleFilter{Prefix: &r.Prefix}
		if r.ExpiredObjectDeleteMarker != nil || r.ExpirationInDays != nil {
			r.Expiration = &types.LifecycleExpiration{ExpiredObjectDeleteMarker: r.ExpiredObjectDeleteMarker, Days: r.ExpirationInDays}
		}
		lifecycle.Rules = append(lifecycle.Rules, r.LifecycleRule)
	}
	var notification types.NotificationConfiguration
	for _, q := range p.NotificationConfiguration.QueueConfigurations {
		if _, err := m.queueName(q.Queue); err != nil {
			return template.Attributes{}, err
		}
		to := types.QueueConfiguration{QueueArn: &q.Queue, Events: []types.Event{q.Event}}
		if q.Filter != nil {
			to.Filter = &types.NotificationConfigurationFilter{Key: &types.S3KeyFilter{FilterRules: q.Filter.S3Key.Rules}}
		}
		notification.QueueConfigurations = append(notification.QueueConfigurations, to)
	}
	in := &s3.CreateBucketInput{Bucket: p.BucketName, ObjectLockEnabledForBucket: p.ObjectLockEnabled}
	if m.Region != "us-east-1" { // S3's default, which it rejects as a value
		in.CreateBucketConfiguration = &types.CreateBucketConfiguration{LocationConstraint: types.BucketLocationConstraint(m.Region)}
	}
	if _, err := m.S3.CreateBucket(ctx, in); err != nil {
		return template.Attributes{}, err
	}
	if _, err := m.S3.PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{
		Bucket: p.BucketName, VersioningConfiguration: &p.VersioningConfiguration,
	}); err != nil {
		return template.Attributes{}, err
	}
	if len(lifecycle.Rules) > 0 {
		if _, err := m.S3.PutBucketLifecycleConfiguration(ctx, &s3.PutBucketLifecycleConfigurationInput{
			Bucket: p.BucketName, LifecycleConfiguration: &lifecycle,
		}); err != nil {
			return template.Attributes{}, err
		}
	}
	if p.ObjectLockConfiguration != nil {
		if _, err := m.S3.PutObjectLockConfiguration(ctx, &s3.PutObjectLockConfigurationInput{
			Bucket: p.BucketName, ObjectLockConfiguration: &types.ObjectLockConfiguration{
				ObjectLockEnabled: p.ObjectLockConfiguration.ObjectLockEnabled, Rule: p.ObjectLockConfiguration.Rule,
			},
		}); err != nil {
			return template.Attributes{}, err
		}
	}
	if _, err := m.S3.PutBucketNotificationConfiguration(ctx, &s3.PutBucketNotificationConfigurationInput{
		Bucket: p.BucketName, NotificationConfiguration: &notification,
	}); err != nil {
		return template.Attributes{}, err
	}
	if len(p.CorsConfiguration.CorsRules) > 0 {
		var rules []types.CORSRule
		for _, r := range p.CorsConfiguration.CorsRules {
			rules = append(rules, types.CORSRule{
				AllowedHeaders: r.AllowedHeaders, AllowedMethods: r.AllowedMethods, AllowedOrigins: r.AllowedOrigins, ExposeHeaders: r.ExposedHeaders, MaxAgeSeconds: r.MaxAge,
			})
		}
		if _, err := m.S3.PutBucketCors(ctx, &s3.PutBucketCorsInput{Bucket: p.BucketName, CORSConfiguration: &types.CORSConfiguration{CORSRules: rules}}); err != nil {
			return template.Attributes{}, err
		}
	}
	m.out.Buckets = append(m.out.Buckets, *p.BucketName)
	return template.Attributes{Ref: *p.BucketName, ARN: "arn:" + template.Partition + ":s3:::" + *p.BucketName}, nil
}
