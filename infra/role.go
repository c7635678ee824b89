package main

import (
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"millrace/functions/catalog"
	"millrace/shared/account/audit"
	"millrace/shared/account/identity"
	"millrace/shared/platform/bus"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/platform/table/dynamo"
	"millrace/shared/platform/telemetry/otlp"
	"millrace/shared/web/fn"
)

// permissions returns the statements of a function's role: what its spec needs,
// on the resources that the spec names, and writing its own log.
func permissions(cfg Config, spec fn.Spec) []statement {
	out := []statement{{
		id: "Log", actions: []string{"logs:CreateLogStream", "logs:PutLogEvents"},
		resources: []*string{arn("logs", "log-group:"+cfg.logGroup(spec.Name)+":log-stream:*")},
	}}
	out = append(out, tablePermissions(cfg, spec)...)
	out = append(out, bucketPermissions(cfg, spec)...)
	out = append(out, lockedPermissions(cfg, spec)...)
	out = append(out, queuePermissions(cfg, spec)...)
	if spec.Needs.Publish {
		out = append(out, statement{
			id: "Bus", actions: []string{"events:PutEvents"}, resources: []*string{cfg.busARN()},
			when: map[string]any{"StringEquals": map[string]any{"events:source": bus.Source}},
		})
	}
	if spec.Needs.Mail && cfg.MailFrom != "" {
		address, domain := cfg.mailFrom()
		out = append(out, statement{
			id: "Mail", actions: []string{"ses:SendEmail"},
			resources: []*string{arn("ses", "identity/"+address), arn("ses", "identity/"+domain)}, // whichever is verified
			when:      map[string]any{"StringEquals": map[string]any{"ses:FromAddress": address}},
		})
	}
	if spec.Needs.Sandbox {
		var functions []*string
		for _, t := range cfg.Tiers.All() {
			functions = append(functions, cfg.aliasARN(sandboxName(t)))
		}
		out = append(out, statement{id: "Sandbox", actions: []string{"lambda:InvokeFunction"}, resources: functions})
	}
	var secrets []*string
	for _, s := range secretsOf(spec) {
		secrets = append(secrets, s.arn(cfg))
	}
	if cfg.OTLPHeaders != "" {
		secrets = append(secrets, jsii.String(cfg.OTLPHeaders))
	}
	out = append(out, statement{id: "Secrets", actions: []string{"secretsmanager:GetSecretValue"}, resources: secrets})
	return append(out, keyPermissions(cfg, spec)...)
}

func tablePermissions(cfg Config, spec fn.Spec) []statement {
	if spec.Needs.Table == fn.NoAccess {
		return nil
	}
	indexes := make([]*string, len(table.Indexes))
	for i, x := range table.Indexes {
		indexes[i] = arn("dynamodb", "table/"+cfg.table()+"/index/"+dynamo.IndexName(x))
	}
	reads := []string{"dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"}
	if spec.Needs.Check {
		reads = append(reads, "dynamodb:DescribeTable")
	}
	out := []statement{
		{id: "ReadTable", resources: []*string{cfg.tableARN()}, actions: reads},
		{id: "ReadIndexes", actions: []string{"dynamodb:Query"}, resources: indexes},
	}
	if spec.Needs.Table == fn.Writes {
		out = append(out, statement{
			id: "WriteTable", resources: []*string{cfg.tableARN()},
			actions: []string{"dynamodb:BatchWriteItem", "dynamodb:ConditionCheckItem", "dynamodb:DeleteItem", "dynamodb:PutItem", "dynamodb:UpdateItem"},
		})
	}
	return append(out, partitionsKept(cfg, spec)...)
}

// anyOrg is the pattern of a workspace's id. It has the id's length, so that it
// does not match other partitions of a workspace, which contain user-given
// names.
var anyOrg = "org_" + strings.Repeat("?", len(ids.First(time.Time{})))

// partitionsKept protects partitions from a function that writes the table: the
// audit log, which every function may append to but not change, and identities.
func partitionsKept(cfg Config, spec fn.Spec) []statement {
	deny := func(id string, partitions []string, actions ...string) statement {
		return statement{
			id: id, deny: true, actions: actions, resources: []*string{cfg.tableARN()},
			when: map[string]any{"ForAnyValue:StringLike": map[string]any{"dynamodb:LeadingKeys": partitions}},
		}
	}
	identities := identity.Partitions(anyOrg)
	writes := spec.Needs.Table == fn.Writes
	var out []statement
	if writes {
		kept := []string{audit.Partition(anyOrg, "*"), audit.DigestPartition(anyOrg)}
		if spec.Needs.Signer == fn.Writes { // it has entries of exported days expire, and changes nothing else of them
			update := deny("AuditExpires", kept, "dynamodb:UpdateItem")
			update.when["ForAnyValue:StringNotEquals"] = map[string]any{"dynamodb:Attributes": []string{
				"pk", "sk", table.TTLAttribute, audit.AttrExport, audit.AttrExpired,
			}}
			out = append(out, deny("AuditIsKept", kept, "dynamodb:BatchWriteItem", "dynamodb:DeleteItem"), update)
		} else {
			out = append(out, deny("AuditIsKept", kept, "dynamodb:BatchWriteItem", "dynamodb:DeleteItem", "dynamodb:UpdateItem"))
		}
	}
	switch {
	case spec.Needs.Identity:
	case !spec.Authenticates():
		out = append(out, deny("IdentitiesAreUnseen", identities, "dynamodb:BatchGetItem", "dynamodb:BatchWriteItem", "dynamodb:ConditionCheckItem",
			"dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem"))
	case writes: // it records the use of keys by updates
		out = append(out, deny("IdentitiesAreRead", identities, "dynamodb:BatchWriteItem", "dynamodb:DeleteItem", "dynamodb:PutItem"))
	}
	return out
}

func bucketPermissions(cfg Config, spec fn.Spec) []statement {
	var out []statement
	if spec.Needs.Blob != fn.NoAccess {
		out = append(out,
			statement{id: "ListBucket", actions: []string{"s3:ListBucket"}, resources: []*string{cfg.bucketARN()}},
			statement{id: "ReadObjects", actions: []string{"s3:GetObject"}, resources: []*string{cfg.bucketARN("*")}})
	}
	written := []*string{}
	for _, folder := range spec.WriteFolders() {
		written = append(written, cfg.bucketARN("*", folder, "*")) // of any workspace
	}
	write := statement{id: "WriteObjects", resources: written, actions: []string{"s3:PutObject"}}
	if spec.Needs.Blob == fn.Writes {
		write.actions = []string{"s3:AbortMultipartUpload", "s3:DeleteObject", "s3:PutObject"}
	}
	return append(out, write)
}

func queuePermissions(cfg Config, spec fn.Spec) []statement {
	arns := func(names []string) []*string {
		out := make([]*string, len(names))
		for i, name := range names {
			out[i] = cfg.queueARN(name)
		}
		return out
	}
	return []statement{
		{id: "Send", actions: []string{"sqs:GetQueueUrl", "sqs:SendMessage"}, resources: arns(spec.Needs.Send)},
		{id: "Measure", actions: []string{"sqs:GetQueueAttributes", "sqs:GetQueueUrl"}, resources: arns(spec.Needs.Measure)},
		{
			id: "Receive", resources: arns(queuesOf(spec)),
			actions: []string{"sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:GetQueueUrl", "sqs:ReceiveMessage"},
		},
	}
}

// queuesOf returns the queues that trigger a function.
func queuesOf(spec fn.Spec) []string {
	var names []string
	for _, def := range catalog.Queues([]fn.Spec{spec}) {
		names = append(names, def.Name)
	}
	return names
}

// keyPermissions lets a function use the key, but only through the services it
// uses.
func keyPermissions(cfg Config, spec fn.Spec) []statement {
	var reads, writes, table []string
	needs := spec.Needs
	if needs.Table != fn.NoAccess {
		reads = append(reads, "dynamodb")
	}
	if needs.Table == fn.Writes {
		table = append(table, "dynamodb")
	}
	locks := cfg.AuditLock > 0 && needs.Locked == fn.Writes
	if needs.Blob != fn.NoAccess || cfg.AuditLock > 0 && needs.Locked != fn.NoAccess {
		reads = append(reads, "s3")
	}
	if len(spec.WriteFolders()) > 0 || locks {
		writes = append(writes, "s3")
	}
	if len(needs.Send) > 0 || len(queuesOf(spec)) > 0 {
		reads = append(reads, "sqs")
	}
	if len(needs.Send) > 0 {
		writes = append(writes, "sqs")
	}
	if len(secretsOf(spec)) > 0 {
		reads = append(reads, "secretsmanager")
	}
	by := func(id string, services []string, actions ...string) statement {
		if len(services) == 0 {
			return statement{}
		}
		slices.Sort(services)
		hosts := make([]*string, len(services))
		for i, s := range services {
			hosts[i] = awscdk.Fn_Sub(jsii.String(s+".${AWS::Region}.amazonaws.com"), nil)
		}
		return statement{
			id: id, actions: actions, resources: []*string{cfg.imported(keyARN)},
			when: map[string]any{"StringEquals": map[string]any{"kms:ViaService": pointers(hosts)}},
		}
	}
	return []statement{
		by("Decrypt", reads, "kms:Decrypt", "kms:DescribeKey"),
		by("Encrypt", writes, "kms:GenerateDataKey"),
		// What DynamoDB's manual lists for writers, except for creating tables.
		vaultPermission(cfg, spec),
		signPermission(cfg, spec),
		by("EncryptTable", table, "kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo"),
	}
}

// vaultPermission lets a function wrap and unwrap the vault's data keys, but
// only with the workspace in the encryption context, as the vault does.
func vaultPermission(cfg Config, spec fn.Spec) statement {
	if !spec.Needs.Vault {
		return statement{}
	}
	return statement{
		id: "Vault", actions: []string{"kms:Encrypt", "kms:Decrypt"}, resources: []*string{cfg.imported(keyARN)},
		when: map[string]any{"ForAnyValue:StringEquals": map[string]any{"kms:EncryptionContextKeys": "associatedData"}},
	}
}

// signPermission lets a function sign with the signing key, or read its public
// part.
func signPermission(cfg Config, spec fn.Spec) statement {
	if spec.Needs.Signer == fn.NoAccess {
		return statement{}
	}
	s := statement{id: "Signer", actions: []string{"kms:GetPublicKey"}, resources: []*string{cfg.imported(signingKeyARN)}}
	if spec.Needs.Signer == fn.Writes {
		s.actions = append(s.actions, "kms:Sign")
	}
	return s
}

// secretOf is a secret, and the variable with its ARN. It is in the data stack, or
// in that of the function.
type secretOf struct{ variable, export, id string }

func (s secretOf) arn(cfg Config) *string {
	if s.id != "" {
		return awscdk.Fn_Ref(jsii.String(s.id))
	}
	return cfg.imported(s.export)
}

// secretsOf returns the secrets that a function reads when it starts.
func secretsOf(spec fn.Spec) []secretOf {
	var out []secretOf
	if spec.Authenticates() {
		out = append(out, secretOf{variable: "MILLRACE_CURSOR_KEY", export: cursorSecret})
	}
	if spec.Needs.Sandbox || spec.Needs.AttemptKey {
		out = append(out, secretOf{variable: "MILLRACE_ATTEMPT_KEY", export: attemptKey})
	}
	if spec.Needs.APIKey {
		out = append(out, secretOf{variable: "MILLRACE_API_KEY", id: apiKeyID(spec)})
	}
	return out
}

// environment returns the variables that settings.go of the bootstrap reads, and
// those of Go's runtime.
func environment(cfg Config, spec fn.Spec, api api, signIn signIn, walls walls) map[string]*string {
	env := map[string]*string{}
	set := func(name, value string) {
		if value != "" {
			env[name] = jsii.String(value)
		}
	}
	for name, value := range spec.Collector() {
		set(name, value)
	}
	set("MILLRACE_VERSION", cfg.Version)
	set("MILLRACE_METRICS", cfg.namespace())
	set("MILLRACE_LOG_LEVEL", cfg.LogLevel)
	set(otlp.EnvEndpoint, cfg.OTLPEndpoint)
	set(otlp.EnvHeaders, cfg.OTLPHeaders)
	if spec.Needs.Table != fn.NoAccess {
		set("MILLRACE_TABLE", cfg.table())
	}
	if spec.Needs.Blob != fn.NoAccess || len(spec.WriteFolders()) > 0 {
		env["MILLRACE_BUCKET"] = cfg.bucketName()
	}
	if len(spec.Needs.Send) > 0 || len(spec.Needs.Measure) > 0 || spec.Messages != nil {
		set("MILLRACE_QUEUE_PREFIX", cfg.prefix())
	}
	if spec.Needs.Vault {
		env["MILLRACE_VAULT_KEY_ARN"] = cfg.imported(keyARN)
	}
	if spec.Needs.Signer != fn.NoAccess {
		env["MILLRACE_SIGNING_KEY_ARN"] = cfg.imported(signingKeyARN)
	}
	if spec.Needs.Locked != fn.NoAccess && cfg.AuditLock > 0 {
		env["MILLRACE_LOCKED_BUCKET"] = cfg.lockedName()
	}
	if spec.Needs.Mail {
		set("MILLRACE_MAIL_FROM", cfg.MailFrom)
	}
	if spec.Needs.Publish {
		set("MILLRACE_BUS", cfg.name("bus"))
	}
	if spec.Needs.Sandbox {
		set("MILLRACE_SANDBOX_PREFIX", cfg.name(sandboxName("")))
	}
	if spec.Trigger.Unmatched || spec.Needs.Links {
		env["MILLRACE_URL"] = api.url("")
	}
	if spec.Trigger.HTTP {
		set("MILLRACE_ALLOW_ORIGINS", strings.Join(cfg.Origins, ","))
	}
	if spec.Authenticates() || spec.Trigger.Unmatched {
		env["MILLRACE_SIGNIN_ISSUER"], env["MILLRACE_SIGNIN_AUDIENCE"] = signIn.issuer, signIn.audience
	}
	if spec.Authenticates() {
		if signIn.keys != nil {
			env["MILLRACE_SIGNIN_JWKS_URL"] = signIn.keys
		}
		set("MILLRACE_SUPER_ADMINS", join(cfg.SuperAdmins))
	}
	if spec.Needs.Table == fn.Writes {
		set("MILLRACE_LIMITS", strings.Join(walls.limits(cfg), ",")) // of one limit the last applies
	}
	set("MILLRACE_ALLOW_RANGES", join(cfg.AllowRanges))
	set("MILLRACE_TIERS", cfg.Tiers.String())
	for _, s := range secretsOf(spec) {
		env[s.variable] = s.arn(cfg)
	}
	return env
}
