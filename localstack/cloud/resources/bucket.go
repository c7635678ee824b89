package resources

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"millrace/localstack/cloud/template"
)

type bucketProperties struct {
	BucketName              string
	VersioningConfiguration struct{ Status string }
	LifecycleConfiguration  struct{ Rules []lifecycleRule }
	CorsConfiguration       struct {
		CorsRules []struct {
			AllowedHeaders, AllowedMethods, AllowedOrigins, ExposedHeaders []string
			MaxAge                                                         *int32
		}
	}
	NotificationConfiguration notifications
}

type notifications struct {
	EventBridgeConfiguration *struct{ EventBridgeEnabled bool }
	QueueConfigurations      []struct {
		Event, Queue string
		Filter       struct {
			S3Key struct {
				Rules []struct{ Name, Value string }
			}
		}
	}
}

type lifecycleRule struct {
	ID, Status, Prefix             string
	ExpirationInDays               *int32
	ExpiredObjectDeleteMarker      *bool
	AbortIncompleteMultipartUpload *struct{ DaysAfterInitiation *int32 }
	NoncurrentVersionExpiration    *struct{ NoncurrentDays, NewerNoncurrentVersions *int32 }
}

// bucket makes a bucket. Who may reach it and how it is encrypted at rest has no
// effect here.
func (m *maker) bucket(ctx context.Context, r *template.Resource, properties map[string]any) (template.Attributes, error) {
	p, err := decode[bucketProperties](properties, "BucketEncryption", "OwnershipControls", "PublicAccessBlockConfiguration",
		"LoggingConfiguration", "ObjectLockEnabled")
	if err != nil {
		return template.Attributes{}, err
	}
	name := cmp.Or(p.BucketName, r.PhysicalName())
	in := &s3.CreateBucketInput{Bucket: &name}
	if m.Region != "us-east-1" { // S3's own default, which it refuses as a value
		in.CreateBucketConfiguration = &types.CreateBucketConfiguration{LocationConstraint: types.BucketLocationConstraint(m.Region)}
	}
	if _, err := m.S3.CreateBucket(ctx, in); err != nil {
		return template.Attributes{}, err
	}
	for _, apply := range []func(context.Context, string, bucketProperties) error{m.versioning, m.lifecycle, m.cors, m.notifications} {
		if err := apply(ctx, name, p); err != nil {
			return template.Attributes{}, err
		}
	}
	m.made(r, name)
	m.out.Buckets = append(m.out.Buckets, name)
	return template.Attributes{Ref: name, Att: map[string]string{
		"Arn": "arn:" + template.Partition + ":s3:::" + name, "DomainName": name + ".s3." + template.URLSuffix,
		"RegionalDomainName": strings.Join([]string{name, "s3", m.Region, template.URLSuffix}, "."),
	}}, nil
}

func (m *maker) versioning(ctx context.Context, name string, p bucketProperties) error {
	if p.VersioningConfiguration.Status == "" {
		return nil
	}
	_, err := m.S3.PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{Bucket: &name, VersioningConfiguration: &types.VersioningConfiguration{
		Status: types.BucketVersioningStatus(p.VersioningConfiguration.Status),
	}})
	return err
}

func (m *maker) lifecycle(ctx context.Context, name string, p bucketProperties) error {
	var rules []types.LifecycleRule
	for _, r := range p.LifecycleConfiguration.Rules {
		rule := types.LifecycleRule{ID: aws.String(r.ID), Status: types.ExpirationStatus(r.Status), Filter: &types.LifecycleRuleFilter{Prefix: aws.String(r.Prefix)}}
		if r.ExpirationInDays != nil || r.ExpiredObjectDeleteMarker != nil {
			rule.Expiration = &types.LifecycleExpiration{Days: r.ExpirationInDays, ExpiredObjectDeleteMarker: r.ExpiredObjectDeleteMarker}
		}
		if a := r.AbortIncompleteMultipartUpload; a != nil {
			rule.AbortIncompleteMultipartUpload = &types.AbortIncompleteMultipartUpload{DaysAfterInitiation: a.DaysAfterInitiation}
		}
		if n := r.NoncurrentVersionExpiration; n != nil {
			rule.NoncurrentVersionExpiration = &types.NoncurrentVersionExpiration{NoncurrentDays: n.NoncurrentDays, NewerNoncurrentVersions: n.NewerNoncurrentVersions}
		}
		rules = append(rules, rule)
	}
	if len(rules) == 0 {
		return nil
	}
	_, err := m.S3.PutBucketLifecycleConfiguration(ctx, &s3.PutBucketLifecycleConfigurationInput{
		Bucket: &name, LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: rules},
	})
	return err
}

func (m *maker) cors(ctx context.Context, name string, p bucketProperties) error {
	var rules []types.CORSRule
	for _, r := range p.CorsConfiguration.CorsRules {
		rules = append(rules, types.CORSRule{
			AllowedHeaders: r.AllowedHeaders, AllowedMethods: r.AllowedMethods, AllowedOrigins: r.AllowedOrigins,
			ExposeHeaders: r.ExposedHeaders, MaxAgeSeconds: r.MaxAge,
		})
	}
	if len(rules) == 0 {
		return nil
	}
	_, err := m.S3.PutBucketCors(ctx, &s3.PutBucketCorsInput{Bucket: &name, CORSConfiguration: &types.CORSConfiguration{CORSRules: rules}})
	return err
}

// notifications has the bucket tell the default bus and queues of its objects.
func (m *maker) notifications(ctx context.Context, name string, p bucketProperties) error {
	var out types.NotificationConfiguration
	if e := p.NotificationConfiguration.EventBridgeConfiguration; e != nil && e.EventBridgeEnabled {
		out.EventBridgeConfiguration = &types.EventBridgeConfiguration{}
	}
	for _, q := range p.NotificationConfiguration.QueueConfigurations {
		if !strings.HasPrefix(q.Queue, m.arn("sqs", "")) {
			return fmt.Errorf("the bucket tells %s, which is no queue of this deployment", q.Queue)
		}
		to := types.QueueConfiguration{QueueArn: aws.String(q.Queue), Events: []types.Event{types.Event(q.Event)}}
		if rules := q.Filter.S3Key.Rules; len(rules) > 0 {
			to.Filter = &types.NotificationConfigurationFilter{Key: &types.S3KeyFilter{}}
			for _, r := range rules {
				to.Filter.Key.FilterRules = append(to.Filter.Key.FilterRules, types.FilterRule{Name: types.FilterRuleName(r.Name), Value: aws.String(r.Value)})
			}
		}
		out.QueueConfigurations = append(out.QueueConfigurations, to)
	}
	if out.EventBridgeConfiguration == nil && out.QueueConfigurations == nil {
		return nil
	}
	_, err := m.S3.PutBucketNotificationConfiguration(ctx, &s3.PutBucketNotificationConfigurationInput{Bucket: &name, NotificationConfiguration: &out})
	return err
}
