package resources

import (
	"maps"

	"millrace/localstack/cloud/template"
)

// Absent tells, by kind, why resources have no counterpart on one machine.
func Absent() map[string]string { return maps.Clone(absent) }

const (
	noPermissions = "nothing checks permissions"
	noAlarms      = "nobody is called; logs are in files"
	noEdge        = "requests reach the stand-in for the API at once"
)

var absent = map[string]string{
	"AWS::IAM::Role":                      noPermissions,
	"AWS::IAM::Policy":                    noPermissions,
	"AWS::IAM::ManagedPolicy":             noPermissions,
	"AWS::Lambda::Permission":             noPermissions,
	"AWS::SQS::QueuePolicy":               noPermissions,
	"AWS::S3::BucketPolicy":               noPermissions,
	"AWS::SNS::TopicPolicy":               noPermissions,
	"AWS::SecretsManager::ResourcePolicy": noPermissions,

	"AWS::CloudWatch::Alarm":          noAlarms,
	"AWS::CloudWatch::CompositeAlarm": noAlarms,
	"AWS::CloudWatch::Dashboard":      noAlarms,
	"AWS::SNS::Topic":                 noAlarms,
	"AWS::SNS::Subscription":          noAlarms,
	"AWS::Logs::LogGroup":             noAlarms,
	"AWS::Logs::MetricFilter":         noAlarms,
	"AWS::Logs::QueryDefinition":      noAlarms,
	"AWS::Logs::ResourcePolicy":       noAlarms,
	"AWS::XRay::Group":                noAlarms,
	"AWS::Budgets::Budget":            noAlarms,

	"AWS::WAFv2::WebACL":               noEdge,
	"AWS::WAFv2::WebACLAssociation":    noEdge,
	"AWS::WAFv2::LoggingConfiguration": noEdge,
	"AWS::WAFv2::IPSet":                noEdge,
	"AWS::ApiGateway::Account":         noEdge,
	"AWS::ApiGateway::Deployment":      noEdge,
	"AWS::ApiGateway::DomainName":      noEdge,
	"AWS::ApiGateway::BasePathMapping": noEdge,
	"AWS::ApiGateway::GatewayResponse": noEdge,
	"AWS::ApiGateway::UsagePlan":       noEdge,
	"AWS::Route53::RecordSet":          noEdge,

	"AWS::Lambda::EventInvokeConfig": "events that nobody waits for are tried once",

	"AWS::CDK::Metadata": "it deploys nothing",
}

// placeholder is what others learn of a resource that is not made: a name and an
// ARN that lead nowhere.
func (m *maker) placeholder(r *template.Resource, properties map[string]any) template.Attributes {
	name := r.PhysicalName()
	for _, property := range []string{"Name", "RoleName", "LogGroupName", "TopicName", "DomainName"} {
		if given, is := properties[property].(string); is {
			name = given
		}
	}
	arn := m.arn("absent", r.Type+"/"+name)
	out := template.Attributes{Ref: name, Att: map[string]string{
		"Arn": arn, "Id": name, "TopicArn": arn, "TopicName": name, "DeploymentId": name, "RoleId": name,
		"RegionalDomainName": name, "RegionalHostedZoneId": name,
	}}
	if r.Type == "AWS::SNS::Topic" {
		out.Ref = arn
	}
	return out
}
