package access

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const authorization = "AWS4-HMAC-SHA256 Credential=%KEY/20260102/eu-west-1/%SERVICE/aws4_request, SignedHeaders=host, Signature=0"

func TestGateHoldsCallersToTheirRoles(t *testing.T) {
	t.Parallel()
	var passed []string
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		passed = append(passed, r.Header.Get("X-Amz-Target")+r.URL.Path+string(body))
	}))
	t.Cleanup(behind.Close)
	const key = "arn:aws:kms:eu-west-1:1:key/k"
	role := func(statements string) Role {
		p, err := parse(t, statements)
		require.NoError(t, err)
		return Role{Name: "f", Policy: p}
	}
	encrypted := `{"Sid": "Key", "Effect": "Allow", "Action": "kms:Decrypt", "Resource": "` + key + `", "Condition": {"StringEquals": {"kms:ViaService": "dynamodb.eu-west-1.amazonaws.com"}}}`
	link := `{"Sid": "Link", "Effect": "Allow", "Action": ["s3:GetObject"], "Resource": "arn:aws:s3:::b/o1/*"}`
	gate, err := New(Config{
		Place: here, Keys: Keys{theTable: key}, Services: map[string]string{"dynamodb": behind.URL, "s3": behind.URL},
		Roles: map[string]Role{"KEYED": role(reads + "," + encrypted + "," + link), "KEYLESS": {Name: "g", Policy: role(reads).Policy}},
	})
	require.NoError(t, err)
	server := httptest.NewServer(gate)
	t.Cleanup(server.Close)

	get := `{"TableName": "t", "Key": {"pk": {"S": "p"}}}`
	for _, c := range []struct {
		key, service, method, path, target, body string
		status                                   int
		answer, denied                           string
	}{
		{"KEYED", "dynamodb", "POST", "/", "D.GetItem", get, 200, "", ""},
		{"KEYED", "dynamodb", "POST", "/", "D.DeleteItem", get, 400, `"__type":"AccessDeniedException"`, "f: not authorized to perform dynamodb:DeleteItem on " + theTable + " because no statement allows it"},
		{"KEYLESS", "dynamodb", "POST", "/", "D.GetItem", get, 400, "AccessDenied", "g: not authorized to perform kms:Decrypt on " + key},
		{"NOBODY", "dynamodb", "POST", "/", "D.GetItem", get, 400, "AccessDenied", "NOBODY: the credential is of no role"},
		{"KEYED", "iam", "POST", "/", "", "", 400, "AccessDenied", "KEYED: the credential"},
		{"KEYED", "dynamodb", "POST", "/", "D.ExecuteStatement", `{}`, 400, "AccessDenied", "f: access: dynamodb POST ExecuteStatement: the operation is not known"},
		{"", "", "GET", "/b/o1/k", "", "", 400, "AccessDenied", "somebody: access: the request is not signed"},
		{"", "", "GET", "/b/o1/k?X-Amz-Credential=KEYED%2F20260102%2Feu-west-1%2Fs3%2Faws4_request", "", "", 200, "", ""},
		{"", "", "GET", "/b/o2/k?X-Amz-Credential=KEYED%2F20260102%2Feu-west-1%2Fs3%2Faws4_request", "", "", 403, "<Code>AccessDenied</Code>", "f: not authorized to perform s3:GetObject on arn:aws:s3:::b/o2/k"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, server.URL+c.path, strings.NewReader(c.body))
		require.NoError(t, err)
		if c.target != "" {
			req.Header.Set("X-Amz-Target", c.target)
		}
		if c.key != "" {
			req.Header.Set("Authorization", strings.NewReplacer("%KEY", c.key, "%SERVICE", c.service).Replace(authorization))
		}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		assert.Equal(t, c.status, res.StatusCode, "%+v: %s", c, body)
		assert.Contains(t, string(body), c.answer)
		if c.denied != "" {
			assert.Contains(t, strings.Join(gate.Denied(), "\n"), c.denied)
		}
	}
	assert.Equal(t, []string{"D.GetItem/" + get, "/b/o1/k"}, passed)
	assert.Equal(t, []string{"f Reads dynamodb:Query", "g Reads dynamodb:Query"}, gate.Unused())
}

// TestTagsSeparateWorkspaces: a session's tag limits a role to one workspace.
func TestTagsSeparateWorkspaces(t *testing.T) {
	t.Parallel()
	p, err := parse(t, when("Allow", `{"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["${aws:PrincipalTag/org}#*"]}}`))
	require.NoError(t, err)
	gate, err := New(Config{Place: here})
	require.NoError(t, err)
	call := func(partition string) Call {
		return Call{Action: "dynamodb:GetItem", Resource: theTable, Context: Context{leadingKeys: {partition}}}
	}
	session := Role{Name: "f", Policy: p, Tags: map[string]string{"org": "org_a"}}
	require.NoError(t, gate.Check(session, call("org_a#flows")))
	require.ErrorContains(t, gate.Check(session, call("org_b#flows")), "no statement allows it")
	require.ErrorContains(t, gate.Check(session, call("org_a#flows"), call("user#a@acme.example")), "user#")
}
