package attack

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
)

// estate is a workspace with one of everything. All of its content, but no
// name, contains its canary: a request can name another workspace's things, but
// a response to a stranger must never contain the canary.
type estate struct {
	Org, Email, Owner, Viewer string // Owner and Viewer: API keys
	Canary                    string
	Flow, Deployment          string
	Run, Slug                 string
	KeyID, UploadID           string
	ArtifactKey, ArtifactURI  string
	PartURL                   string // presigned, for the open upload of PartSize bytes
	Cursor, LogCursor         string
}

// partSize is the declared size in bytes of an estate's open upload.
const partSize = 10

// settle creates a workspace with one of everything.
func (s *service) settle(t *testing.T, name string) *estate {
	t.Helper()
	api := s.workspace(t, name+"@example.com")
	e := &estate{Email: name + "@example.com", Owner: api.Token, Canary: "canary" + token(), Flow: name + "-" + token()}
	e.Deployment = e.Flow
	do := func(method, path string, in, out any) {
		t.Helper()
		require.NoError(t, api.Do(t.Context(), method, path, in, out))
	}
	e.Viewer = newKey(t, api, "viewer", "flows.read", "runs.read")
	var me struct {
		OrgID string `json:"org_id"`
	}
	do(http.MethodGet, "/me", nil, &me)
	e.Org = me.OrgID
	var key struct {
		KeyID string `json:"key_id"`
	}
	do(http.MethodPost, "/api-keys", object{"name": e.Canary, "scopes": []string{"flows.read"}}, &key)
	e.KeyID = key.KeyID
	source := "def say(ctx):\n    print('" + e.Canary + "')\n    return ['" + e.Canary + "'] * 2\n"
	require.NoError(t, upload(t.Context(), api, e.Flow, source, python("say"), transform("echo", "'"+e.Canary+"'", "say")))
	do(http.MethodPost, "/flows", object{"flow_name": e.Flow, "flow_version": "2", "description": e.Canary,
		"flow_spec": object{"tasks": []object{transform("echo", "params")}}, "tags": object{"tag": e.Canary}}, nil)
	do(http.MethodPost, "/flows/"+e.Flow+"/draft", nil, nil)
	run, err := api.Start(t.Context(), client.RunRequest{Deployment: e.Deployment, Execute: true, Parameters: object{"note": e.Canary}})
	require.NoError(t, err)
	require.Equal(t, "SUCCEEDED", run.Status)
	e.Run, e.Slug = run.RunID, run.Slug
	_, err = api.Log(t.Context(), run.RunID) // until it is archived and no longer changes
	require.NoError(t, err)
	var version struct {
		ArtifactURI string `json:"artifact_store_uri"`
	}
	do(http.MethodGet, "/flows/"+e.Flow+"/1", nil, &version)
	e.ArtifactURI = version.ArtifactURI
	var begun struct {
		UploadID    string `json:"upload_id"`
		ArtifactKey string `json:"artifact_key"`
		Parts       []struct {
			UploadURL string `json:"upload_url"`
		} `json:"parts"`
	}
	do(http.MethodPost, "/artifacts/initiate", object{"flow_name": e.Flow, "flow_version": "3", "size_bytes": partSize}, &begun)
	e.UploadID, e.ArtifactKey, e.PartURL = begun.UploadID, begun.ArtifactKey, begun.Parts[0].UploadURL
	var page struct {
		NextToken string `json:"next_token"`
	}
	require.NoError(t, register(t.Context(), api, "second-"+e.Flow, transform("one", "1")))
	do(http.MethodGet, "/flows?limit=1", nil, &page)
	e.Cursor = page.NextToken
	require.NotEmpty(t, e.Cursor)
	do(http.MethodGet, "/runs/"+e.Run+"/logs?limit=1", nil, &page)
	e.LogCursor = page.NextToken
	require.NotEmpty(t, e.LogCursor)
	return e
}

// objects returns the address of the object store.
func (e *estate) objects() (base string, part *url.URL) {
	part, err := url.Parse(e.PartURL)
	if err != nil {
		panic(err) // the service made it
	}
	return part.Scheme + "://" + part.Host, part
}

// estate returns the content of an attack's workspaces, which the attack must
// not change.
func (o *orders) estate(t *testing.T) (found []string) {
	t.Helper()
	for _, e := range []*estate{o.Ours, o.Theirs} {
		if e == nil {
			continue
		}
		api := &client.Client{BaseURL: o.Credentials.BaseURL, Token: e.Owner}
		for _, path := range []string{
			"/flows/" + e.Flow + "/1", "/flows/" + e.Flow + "/2", "/flows/" + e.Flow + "/draft/source",
			"/deployments/" + e.Deployment, "/runs/" + e.Run, "/runs/" + e.Run + "/logs?limit=100",
		} {
			var raw json.RawMessage
			require.NoError(t, api.Do(t.Context(), http.MethodGet, path, nil, &raw))
			found = append(found, path+": "+string(bytes.TrimSpace(raw)))
		}
		var keys struct {
			Items []struct {
				KeyID string `json:"key_id"`
				Name  string `json:"name"`
			} `json:"items"`
		}
		require.NoError(t, api.Do(t.Context(), http.MethodGet, "/api-keys", nil, &keys))
		for _, k := range keys.Items {
			if k.KeyID == e.KeyID {
				found = append(found, k.Name)
			}
		}
	}
	return found
}
