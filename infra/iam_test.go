package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPermissionsArePrintedAndCompared(t *testing.T) {
	t.Parallel()
	role := func(statements string) string {
		path := filepath.Join(t.TempDir(), "service.template.json")
		require.NoError(t, os.WriteFile(path, []byte(`{"Resources": {"Other": {"Type": "AWS::SQS::Queue"}, "RunsRole": {"Type": "AWS::IAM::Role", "Properties": {"Policies": [
			{"PolicyName": "needs", "PolicyDocument": {"Version": "2012-10-17", "Statement": [`+statements+`]}}]}}}}`), 0o600))
		return path
	}
	read := `{"Sid": "Read", "Effect": "Allow", "Action": ["dynamodb:GetItem"], "Resource": [{"Fn::Sub": "arn:${AWS::Partition}:dynamodb:${AWS::Region}:${AWS::AccountId}:table/t"}]}`
	keep := `{"Sid": "Keep", "Effect": "Deny", "Action": "dynamodb:*", "Resource": "*", "Condition": {"ForAnyValue:StringLike": {"dynamodb:LeadingKeys": ["a", "b"]}}}`
	call := `{"Sid": "Call", "Effect": "Allow", "Action": "kms:Sign", "Resource": [{"Fn::ImportValue": "key-arn"}]}`
	var out bytes.Buffer
	require.NoError(t, printPermissions(&out, []string{role(keep + "," + read)}))
	assert.Equal(t, "Runs allow dynamodb:GetItem on dynamodb:table/t\nRuns deny dynamodb:* on * [ForAnyValue:StringLike dynamodb:LeadingKeys: a b]\n", out.String())
	out.Reset()
	require.NoError(t, printPermissions(&out, []string{role(read + "," + call), role(keep + "," + read)}))
	assert.Equal(t, "+ Runs allow kms:Sign on key-arn\n- Runs deny dynamodb:* on * [ForAnyValue:StringLike dynamodb:LeadingKeys: a b]\n", out.String())
	out.Reset()
	least := `{"Sid": "Least", "Effect": "Deny", "NotAction": ["kms:Decrypt"], "Resource": "*"}`
	require.NoError(t, printPermissions(&out, []string{role(least)}))
	assert.Equal(t, "Runs deny all but kms:Decrypt on *\n", out.String())
	require.Error(t, printPermissions(&out, nil))
	require.Error(t, printPermissions(&out, []string{"no-such.template.json"}))
	require.ErrorContains(t, printPermissions(&out, []string{"count.go"}), "count.go")
}
