package main

import (
	"encoding/json"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/functions/catalog"
	"millrace/localstack/cloud/access"
	"millrace/shared/account/audit"
	"millrace/shared/account/identity"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/queue"
	"millrace/shared/run/tier"
	"millrace/shared/web/fn"
)

// reviewed lists the wildcards that policies may contain: where, which, and
// why.
var reviewed = []struct{ where, action, resource, why string }{
	{`^(Signing)?Key$`, `^kms:\*$`, `^\*$`, "the account's own policies decide about its key, or nobody could change this one"},
	{`^Key$`, `^kms:[A-Za-z]+$`, `^\*$`, "in a key's policy this is the key itself"},
	{`^[A-Za-z]+Role$`, `^logs:(CreateLogStream|PutLogEvents)$`, `:log-group:/millrace/[^*]+:log-stream:\*$`, "Lambda names the streams of the function's group"},
	{`^Audit(Digest)?Role$`, `^s3:GetObject$`, `-a/\*$`, "locked copies of every workspace"},
	{`^AuditDigestRole$`, `^s3:PutObject$`, `-a/\*/audit/\*$`, "locked copies of every workspace"},
	{`^BackupRole$`, `^backup:CopyFromBackupVault$`, `:recovery-point:\*$`, "AWS Backup chooses their names"},
	{`^RestoreRole$`, `^dynamodb:RestoreTableFromAwsBackup$`, `:recovery-point:\*$`, "AWS Backup chooses their names"},
	{`^RestoreRole$`, `^dynamodb:[A-Za-z]+$`, `:table/millrace-[^*]+-table\*$`, "a restored table has a name of the operator's"},
	{`^ReplicationRole$`, `^s3:(GetObjectVersion|Replicate)[A-Za-z]+$`, `:s3:::millrace-[^*]+/\*$`, "every object of the bucket is replicated"},
	{`^[A-Za-z]+Role$`, `^s3:GetObject$`, `:s3:::millrace-[^*]+/\*$`, "objects refer to each other over folders; keys begin with the workspace, and those are made at run time"},
	{`^[A-Za-z]+Role$`, `^s3:(PutObject|DeleteObject|AbortMultipartUpload)$`, `:s3:::millrace-[^*]+/\*/[a-z]+/\*$`, "one folder of every workspace"},
}

// each checks a rule for the catalog, for one with fictitious domains, and with a
// backup in another region.
func each(t *testing.T, rule func(t *testing.T, d deployment)) {
	t.Helper()
	for name, d := range map[string]deployment{"catalog": deployed(t), "more domains": deployedWithMore(t), "backup": deployedWithBackup(t)} {
		t.Run(name, func(t *testing.T) { rule(t, d) })
	}
}

func TestPoliciesNameTheirResources(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d deployment) {
		for _, template := range d.templates() {
			for where, statements := range template.policyStatements() {
				for _, s := range statements {
					if s["Effect"] == "Deny" {
						continue
					}
					assert.NotContains(t, s, "NotAction", where)
					assert.NotContains(t, s, "NotResource", where)
					for _, action := range texts(s["Action"]) {
						for _, res := range texts(s["Resource"]) {
							if !strings.Contains(action+res, "*") {
								continue
							}
							assert.True(t, slices.ContainsFunc(reviewed, func(r struct{ where, action, resource, why string }) bool {
								return matches(r.where, where) && matches(r.action, action) && matches(r.resource, res)
							}), "%s allows %s on %s", where, action, res)
						}
					}
				}
			}
		}
	})
}

func matches(pattern, text string) bool { return regexp.MustCompile(pattern).MatchString(text) }

// unconditional are the statements of the key's policy for services that send
// to queues. EventBridge sets no aws:SourceAccount when it uses a key, so that a
// condition on it drops the events; the policies of the queues are bound to a
// rule or a bucket.
var unconditional = map[string]bool{"EventsToQueues": true, "BucketToQueue": true}

// TestServicePoliciesAreBoundToThisAccount checks that other accounts cannot
// reach ours through a service.
func TestServicePoliciesAreBoundToThisAccount(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d deployment) {
		found := 0
		for _, template := range d.templates() {
			for where, statements := range template.policyStatements() {
				for _, s := range statements {
					principal, _ := s["Principal"].(object)
					if principal["Service"] == nil || s["Effect"] == "Deny" {
						continue
					}
					found++
					if where == "Key" && unconditional[text(s["Sid"])] {
						assert.NotContains(t, s, "Condition", s["Sid"])
						continue
					}
					assert.NotEmpty(t, s["Condition"], "%s: %s of any account", where, principal["Service"])
				}
			}
			for _, p := range template.of("Lambda::Permission") {
				found++
				if p.properties["Principal"] == "*" { // see TestSandboxesReportToAFunctionURL
					continue
				}
				assert.NotEmpty(t, p.properties["SourceArn"], p.id)
			}
		}
		assert.Greater(t, found, 10)
	})
}

func TestSandboxHasNoPermissions(t *testing.T) {
	t.Parallel()
	d := deployed(t)
	for _, one := range tier.All() {
		f := d.function(t, sandboxName(one))
		assert.Equal(t, "${SandboxRole.Arn}", text(f.properties["Role"]))
		assert.Equal(t, object{"TenantIsolationMode": "PER_TENANT"}, f.properties["TenancyConfig"])
		assert.EqualValues(t, one.MemoryMB(), f.properties["MemorySize"])
		variables, _ := f.properties["Environment"].(object)["Variables"].(object)
		assert.Equal(t, []string{"MILLRACE_ATTEMPTS_URL"}, slices.Collect(maps.Keys(variables)), "no credential, and no data of a workspace")
	}
	role, found := d.service.named("IAM::Role", "Description", "Nothing: the sandbox functions run users' code")
	require.True(t, found)
	assert.NotContains(t, role.properties, "ManagedPolicyArns")
	policies := role.properties["Policies"].([]any)
	require.Len(t, policies, 1)
	const key = "arn:aws:kms:eu-west-1:123456789012:key/data"
	policy := evaluated(t, policies[0].(object)["PolicyDocument"], "${import millrace-acme-prod-key-arn}", key)
	for action, resources := range map[string][]string{
		"logs:PutLogEvents":             {"*"},
		"sts:AssumeRole":                {"*"},
		"kms:Encrypt":                   {"*", key},
		"kms:Decrypt":                   {key},
		"s3:GetObject":                  {"arn:aws:s3:::anything"},
		"lambda:GetFunction":            {"*"},
		"dynamodb:GetItem":              {"*"},
		"iam:PutRolePolicy":             {"*"},
		"kms:CreateGrant":               {"*", key},
		"kms:DescribeKey":               {key},
		"ssm:GetParameter":              {"*"},
		"secretsmanager:GetSecretValue": {"*"},
	} {
		for _, res := range resources {
			decision, err := policy.Decide(access.Call{Action: action, Resource: res})
			require.NoError(t, err)
			assert.True(t, decision.Explicit, "%s on %s is denied, whatever another policy allows", action, res)
		}
	}
}

// TestLambdaDecryptsEnvironments: Lambda decrypts a function's variables with the
// credentials of its role, by a grant on the account's key aws/lambda. A role that
// denies this keeps its function from starting.
func TestLambdaDecryptsEnvironments(t *testing.T) {
	t.Parallel()
	d := deployed(t)
	const own = "arn:aws:kms:eu-west-1:123456789012:key/aws-lambda"
	roles := map[string]resource{}
	for _, r := range d.service.of("IAM::Role") {
		roles["${"+r.id+".Arn}"] = r
	}
	for _, f := range d.service.of("Lambda::Function") {
		require.Contains(t, f.properties, "Environment", f.id)
		role, found := roles[text(f.properties["Role"])]
		require.True(t, found, f.id)
		for _, p := range role.properties["Policies"].([]any) {
			decision, err := evaluated(t, p.(object)["PolicyDocument"]).Decide(access.Call{Action: "kms:Decrypt", Resource: own})
			require.NoError(t, err)
			assert.False(t, decision.Explicit, "%s cannot start: %s denies its environment", f.id, decision.Sid)
		}
	}
}

// evaluated returns a policy of a template. References stay as text, unless they
// are replaced by values: old, new ….
func evaluated(t *testing.T, document any, replaced ...string) access.Policy {
	t.Helper()
	values := strings.NewReplacer(replaced...)
	var plain func(v any) any
	plain = func(v any) any {
		switch v := v.(type) {
		case []any:
			out := make([]any, len(v))
			for i, e := range v {
				out[i] = plain(e)
			}
			return out
		case object:
			if v["Fn::Sub"] != nil || v["Fn::ImportValue"] != nil || v["Fn::GetAtt"] != nil || v["Ref"] != nil {
				return values.Replace(text(v))
			}
			out := object{}
			for key, e := range v {
				out[key] = plain(e)
			}
			return out
		}
		return v
	}
	policy, err := access.Parse(plain(document))
	require.NoError(t, err)
	return policy
}

func TestEveryQueueHasWatchedDeadLetterQueue(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d deployment) {
		dead := map[string]bool{}
		queues := 0
		for _, q := range d.data.of("SQS::Queue") {
			policy, redrives := q.properties["RedrivePolicy"].(object)
			if !redrives {
				dead[q.id] = true
				continue
			}
			queues++
			name := strings.TrimPrefix(text(q.properties["QueueName"]), d.cfg.prefix())
			target, _, _ := strings.Cut(strings.TrimPrefix(text(policy["deadLetterTargetArn"]), "${"), ".")
			to := slices.IndexFunc(d.data.resources, func(r resource) bool { return r.id == target })
			require.GreaterOrEqual(t, to, 0, "%s redrives to nothing", q.id)
			assert.Equal(t, d.cfg.queue(queue.Dead(name)), d.data.resources[to].properties["QueueName"])
			assert.EqualValues(t, queue.MaxReceives, policy["maxReceiveCount"])
			delete(dead, target)
			if !slices.ContainsFunc(catalog.Queues(d.specs), func(def queue.Definition) bool { return def.Name == name }) {
				assert.Equal(t, events.ObjectQueue, name, "only this queue may have no function, and so no alarms")
				continue
			}
			waits := "ApproximateAgeOfOldestMessage"
			if slices.Contains(events.AllQueues(), name) {
				waits = "NumberOfMessagesReceived"
			}
			for metric, of := range map[string]string{"ApproximateNumberOfMessagesVisible": queue.Dead(name), waits: name} {
				assert.True(t, d.watched("AWS/SQS", metric, "QueueName", d.cfg.queue(of)), "no alarm watches %s of %s", metric, of)
			}
		}
		assert.Len(t, definitions(d.specs), queues)
		assert.Len(t, d.data.of("SQS::Queue"), 2*queues)
	})
}

// watched reports whether an alarm watches a metric, or has it as a term.
func (d deployment) watched(namespace, metric, dimension, value string) bool {
	of := func(p object) bool {
		dimensions, _ := p["Dimensions"].([]any)
		return p["Namespace"] == namespace && p["MetricName"] == metric && slices.ContainsFunc(dimensions, func(v any) bool {
			return v.(object)["Name"] == dimension && v.(object)["Value"] == value
		})
	}
	return slices.ContainsFunc(d.operations.of("CloudWatch::Alarm"), func(a resource) bool {
		terms, _ := a.properties["Metrics"].([]any)
		return len(a.properties["AlarmActions"].([]any)) > 0 && (of(a.properties) || slices.ContainsFunc(terms, func(v any) bool {
			stat, _ := v.(object)["MetricStat"].(object)
			m, _ := stat["Metric"].(object)
			return of(m)
		}))
	})
}

func TestEveryFunctionHasAlarms(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d deployment) {
		functions := d.service.of("Lambda::Function")
		assert.Len(t, functions, len(d.specs)+len(tier.All()))
		for _, f := range functions {
			for _, metric := range []string{"Errors", "Throttles"} {
				assert.True(t, d.watched("AWS/Lambda", metric, "FunctionName", text(f.properties["FunctionName"])), "%s of %s", metric, f.id)
			}
		}
		for _, s := range d.specs {
			if s.Trigger.EveryMinute {
				a, found := d.operations.named("CloudWatch::Alarm", "AlarmName", d.cfg.name(camel(s.Name)+"Missed"))
				require.True(t, found)
				assert.Equal(t, "breaching", a.properties["TreatMissingData"], "a missing tick is missing data")
			}
		}
		assert.True(t, d.watched("AWS/ApiGateway", "5XXError", "ApiName", d.cfg.name("api")))
	})
}

func TestVisibilityTimeoutIsSixFunctionTimeouts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d deployment) {
		mappings := d.service.of("Lambda::EventSourceMapping")
		require.NotEmpty(t, mappings)
		for _, m := range mappings {
			assert.Equal(t, []any{"ReportBatchItemFailures"}, m.properties["FunctionResponseTypes"], m.id)
			arn := text(m.properties["EventSourceArn"])
			q, found := d.data.named("SQS::Queue", "QueueName", arn[strings.LastIndexByte(arn, ':')+1:])
			require.True(t, found, "%s receives from the unknown queue %s", m.id, arn)
			of := strings.TrimSuffix(strings.Trim(text(m.properties["FunctionName"]), "${}"), "Live") + "Function"
			at := slices.IndexFunc(d.service.resources, func(r resource) bool { return r.id == of })
			require.GreaterOrEqual(t, at, 0)
			timeout := number(d.service.resources[at].properties["Timeout"])
			assert.GreaterOrEqual(t, number(q.properties["VisibilityTimeout"]), 6*timeout, m.id)
			assert.LessOrEqual(t, number(q.properties["VisibilityTimeout"]), (12 * time.Hour).Seconds(), m.id)
		}
		assert.Len(t, mappings, len(catalog.Queues(d.specs)))
	})
}

func TestFunctionsMatchTheirSpecs(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d deployment) {
		for _, s := range d.specs {
			p := d.function(t, s.Name).properties
			assert.Equal(t, s.Name, p["Handler"])
			assert.Equal(t, []any{"provided.al2023", []any{"arm64"}}, []any{p["Runtime"], p["Architectures"]})
			assert.EqualValues(t, s.MemoryMB, p["MemorySize"], s.Name)
			assert.EqualValues(t, s.Timeout.Seconds(), p["Timeout"], s.Name)
			if len(s.Needs.Send) > 0 {
				assert.Equal(t, "Allow", p["RecursiveLoop"], "%s: Lambda would end a chain of tasks as a loop", s.Name)
			}
			role := strings.TrimSuffix(strings.TrimPrefix(text(p["Role"]), "${"), ".Arn}")
			var allowed []string
			for _, statement := range d.service.policyStatements()[role] {
				if statement["Effect"] == "Allow" {
					allowed = append(allowed, texts(statement["Action"])...)
				}
			}
			may := func(action string) bool { return slices.Contains(allowed, action) }
			assert.Equal(t, s.Needs.Table != fn.NoAccess, may("dynamodb:GetItem"), s.Name)
			assert.Equal(t, s.Needs.Table == fn.Writes, may("dynamodb:PutItem"), s.Name)
			assert.Equal(t, s.Needs.Blob != fn.NoAccess, may("s3:GetObject"), s.Name)
			assert.Equal(t, s.Needs.Blob == fn.Writes || s.Trigger.HTTP, may("s3:PutObject"), "%s: HTTP functions store traces", s.Name)
			assert.Equal(t, s.Needs.Blob == fn.Writes, may("s3:DeleteObject"), s.Name)
			assert.Equal(t, len(s.Needs.Send) > 0, may("sqs:SendMessage"), s.Name)
			assert.Equal(t, s.Messages != nil, may("sqs:ReceiveMessage"), s.Name)
			assert.Equal(t, s.Needs.Publish, may("events:PutEvents"), s.Name)
			assert.Equal(t, s.Needs.Sandbox, may("lambda:InvokeFunction"), s.Name)
			assert.Equal(t, s.Authenticates() || s.Needs.Sandbox || s.Needs.AttemptKey, may("secretsmanager:GetSecretValue"), s.Name)
			assert.False(t, may("dynamodb:Scan"), s.Name)
			var written []string
			for _, statement := range d.service.policyStatements()[role] {
				if slices.Contains(texts(statement["Action"]), "s3:PutObject") {
					written = texts(statement["Resource"])
				}
			}
			folders := s.WriteFolders()
			require.Len(t, written, len(folders), s.Name)
			for i, folder := range folders {
				assert.True(t, strings.HasSuffix(written[i], "/*/"+folder+"/*"), "%s writes %s", s.Name, written[i])
			}
		}
	})
}

// TestOnlyRunnersOfTasksReachSandboxes: what merely describes the sandbox cannot
// start code in it, nor forge the token of an attempt.
func TestOnlyRunnersOfTasksReachSandboxes(t *testing.T) {
	t.Parallel()
	d := deployed(t)
	var invoke, keys []string
	for _, s := range d.specs {
		variables := d.function(t, s.Name).properties["Environment"].(object)["Variables"].(object)
		if variables["MILLRACE_ATTEMPT_KEY"] != nil {
			keys = append(keys, s.Name)
		}
		for _, statement := range d.service.policyStatements()[camel(s.Name)+"Role"] {
			if slices.Contains(texts(statement["Action"]), "lambda:InvokeFunction") {
				invoke = append(invoke, s.Name)
			}
		}
	}
	assert.ElementsMatch(t, []string{"sandboxlogs", "taskworker"}, invoke)
	assert.ElementsMatch(t, []string{"sandboxlogs", "taskworker"}, keys)
}

// TestFunctionsTouchOnlyTheirPartitions tests the conditions on partitions by
// example: DynamoDB compares the partition of each item with the patterns.
func TestFunctionsTouchOnlyTheirPartitions(t *testing.T) {
	t.Parallel()
	d := deployed(t)
	org := "org_" + ids.New(time.Now())
	audits := []string{audit.Partition(org, "0"), audit.Partition(org, "7")}
	identities := identity.Partitions(org)
	for i, partition := range identities {
		identities[i] = strings.ReplaceAll(partition, "*", "somebody@acme.example")
	}
	denied := func(function, action, partition string) bool {
		return slices.ContainsFunc(d.service.policyStatements()[camel(function)+"Role"], func(s object) bool {
			condition, _ := s["Condition"].(object)
			like, _ := condition["ForAnyValue:StringLike"].(object)
			return s["Effect"] == "Deny" && slices.Contains(texts(s["Action"]), action) &&
				slices.ContainsFunc(texts(like["dynamodb:LeadingKeys"]), func(pattern string) bool {
					matched, err := path.Match(strings.ReplaceAll(pattern, "/", "_"), strings.ReplaceAll(partition, "/", "_"))
					return err == nil && matched
				})
		})
	}
	for _, s := range d.specs {
		if s.Needs.Table == fn.NoAccess {
			continue
		}
		for _, partition := range audits {
			assert.Equal(t, s.Needs.Table == fn.Writes, denied(s.Name, "dynamodb:DeleteItem", partition), "%s deletes of %s", s.Name, partition)
			assert.False(t, denied(s.Name, "dynamodb:PutItem", partition), "%s adds to %s", s.Name, partition)
		}
		for _, partition := range identities {
			assert.Equal(t, !s.Needs.Identity && s.Needs.Table == fn.Writes, denied(s.Name, "dynamodb:PutItem", partition), "%s makes %s", s.Name, partition)
			assert.Equal(t, !s.Authenticates(), denied(s.Name, "dynamodb:GetItem", partition), "%s reads %s", s.Name, partition)
			assert.Equal(t, !s.Authenticates(), denied(s.Name, "dynamodb:UpdateItem", partition), "%s updates %s", s.Name, partition)
		}
		for _, own := range []string{org + "#flow#audit", org + "#flow#audit#0", org + "#flow#keys", org + "#run#" + ids.New(time.Now()), org + "#flows", "due#7"} {
			for _, action := range []string{"dynamodb:PutItem", "dynamodb:DeleteItem", "dynamodb:GetItem"} {
				assert.False(t, denied(s.Name, action, own), "%s: %s of %s", s.Name, action, own)
			}
		}
	}
}

// TestPoliciesFitTheirRoles checks the limit of IAM's inline policies, 10,240
// characters a role, with the longest possible names.
func TestPoliciesFitTheirRoles(t *testing.T) {
	t.Parallel()
	cfg := example()
	cfg.Tenant, cfg.Region, cfg.Stage = "a234567890123456", "ap-southeast-2", "staging"
	cfg.AuditLock, cfg.AuditLockMode = 365, "governance"
	d := synth(t, cfg, catalog.All(), "code")
	for _, r := range d.service.of("IAM::Role") {
		data, err := json.Marshal(r.properties["Policies"])
		require.NoError(t, err)
		grown := strings.NewReplacer("${AWS::AccountId}", "123456789012", "${AWS::Region}", cfg.Region).Replace(string(data))
		assert.Less(t, len(grown), 10_240, r.id)
	}
	for _, b := range d.data.of("S3::Bucket") {
		name := strings.NewReplacer("${AWS::AccountId}", "123456789012", "${AWS::Region}", cfg.Region).Replace(text(b.properties["BucketName"]))
		assert.LessOrEqual(t, len(name), 63, name)
	}
}

func TestTemplatesContainNoSecrets(t *testing.T) {
	t.Parallel()
	d := deployed(t)
	for name, template := range d.templates() {
		assert.NotContains(t, template.golden(t), "{{resolve:", name)
	}
	for _, f := range d.service.of("Lambda::Function") {
		environment, _ := f.properties["Environment"].(object)
		variables, _ := environment["Variables"].(object)
		for variable, value := range variables {
			if strings.HasSuffix(variable, "_KEY") {
				assert.Regexp(t, `^\$\{import [a-z-]+-secret-arn\}$`, text(value), "%s of %s", variable, f.id)
			}
		}
	}
	for _, s := range d.data.of("SecretsManager::Secret") {
		assert.NotContains(t, s.properties, "SecretString")
		assert.EqualValues(t, 64, s.properties["GenerateSecretString"].(object)["PasswordLength"])
	}
}
