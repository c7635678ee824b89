package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
)

// Upload is the code of a flow version and its deployment.
type Upload struct {
	FlowName       string
	FlowVersion    string
	DeploymentName string
	Spec           json.RawMessage // flow_spec; empty: flow_spec.json in the zip
	Zip            []byte
	// Settings are further settings of the deployment, by their names in the API.
	Settings map[string]any
	// Progress is called with the number of bytes of the zip sent so far. It may
	// be nil.
	Progress func(sent int)
}

type part struct {
	PartNumber int    `json:"part_number"`
	UploadURL  string `json:"upload_url,omitempty"`
	ETag       string `json:"etag,omitempty"`
}

type initiated struct {
	UploadID    string `json:"upload_id"`
	ArtifactKey string `json:"artifact_key"`
	PartSize    int    `json:"part_size"`
	Parts       []part `json:"parts"`
}

// Deployed is the response to a completed upload.
type Deployed struct {
	FlowName          string `json:"flow_name"`
	FlowVersion       string `json:"flow_version"`
	DeploymentName    string `json:"deployment_name"`
	DeploymentVersion int    `json:"deployment_version"`
	CodeHash          string `json:"code_hash"`
	Environment       string `json:"environment"`
	// EnvironmentCreated: the environment was made for the deployment.
	EnvironmentCreated bool `json:"environment_created,omitempty"`
	// ScheduleID and NextRunEpoch (Unix seconds) are of the deployment's own schedule;
	// zero if it has none, or no next run.
	ScheduleID   string `json:"schedule_id,omitempty"`
	NextRunEpoch int64  `json:"next_run_epoch,omitempty"`
}

// Upload uploads a flow's code in parts, registers its version and deploys it.
func (c *Client) Upload(ctx context.Context, u Upload) (Deployed, error) {
	var begun initiated
	err := c.Do(ctx, http.MethodPost, "/artifacts/initiate", map[string]any{
		"flow_name": u.FlowName, "flow_version": u.FlowVersion, "size_bytes": len(u.Zip),
	}, &begun)
	if err != nil {
		return Deployed{}, err
	}
	var done []part
	rest := u.Zip
	for _, p := range begun.Parts {
		chunk := rest[:min(begun.PartSize, len(rest))]
		rest = rest[len(chunk):]
		etag, err := c.put(ctx, p.UploadURL, chunk)
		if err != nil {
			return Deployed{}, fmt.Errorf("part %d: %w", p.PartNumber, err)
		}
		done = append(done, part{PartNumber: p.PartNumber, ETag: etag})
		if u.Progress != nil {
			u.Progress(len(u.Zip) - len(rest))
		}
	}
	complete := map[string]any{
		"upload_id": begun.UploadID, "artifact_key": begun.ArtifactKey, "parts": done,
		"flow_name": u.FlowName, "flow_version": u.FlowVersion, "deployment_name": u.DeploymentName,
	}
	maps.Copy(complete, u.Settings)
	if len(u.Spec) > 0 {
		complete["flow_spec"] = u.Spec
	}
	var out Deployed
	return out, c.Do(ctx, http.MethodPost, "/artifacts/complete", complete, &out)
}

// put uploads a part to its presigned URL, without a credential.
func (c *Client) put(ctx context.Context, url string, data []byte) (etag string, err error) {
	err = Patience{Total: partPatience}.attempt(ctx, func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, bytes.NewReader(data))
		if err != nil {
			return err
		}
		res, err := c.http().Do(req)
		if err != nil {
			return broken(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if res.StatusCode == http.StatusOK {
			etag = res.Header.Get("ETag")
			return nil
		}
		refused := fmt.Errorf("the object store answered %d: %s", res.StatusCode, body)
		if err != nil || res.StatusCode >= http.StatusInternalServerError { // S3 answers 500 and 503 when it is busy
			return broken(refused)
		}
		return refused
	})
	return etag, err
}
