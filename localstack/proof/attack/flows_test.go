package attack

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"net/http"

	"millrace/localstack/client"
)

// transform returns a trivial task.
func transform(name, expression string, after ...string) object {
	return object{"name": name, "type": "transform", "depends_on": after, "config": object{"expression": expression}}
}

// python returns a task of flow.py.
func python(name string, after ...string) object {
	return object{"name": name, "type": "python", "entrypoint": "flow:" + name, "depends_on": after}
}

// many returns n tasks named t0, t1 and so on.
func many(n int, task func(name string) object) (tasks []object) {
	for i := range n {
		tasks = append(tasks, task(fmt.Sprint("t", i)))
	}
	return tasks
}

// register registers version 1 of a flow without code.
func register(ctx context.Context, api *client.Client, name string, tasks ...object) error {
	body := object{"flow_name": name, "flow_version": "1", "flow_spec": object{"tasks": tasks}}
	return api.Do(ctx, http.MethodPost, "/flows", body, nil)
}

// upload deploys a flow with its flow.py.
func upload(ctx context.Context, api *client.Client, name, source string, tasks ...object) error {
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	f, err := w.Create("flow.py")
	if err != nil {
		return err
	}
	if _, err = f.Write([]byte(source)); err != nil {
		return err
	}
	if err = w.Close(); err != nil {
		return err
	}
	_, err = api.Upload(ctx, client.Upload{
		FlowName: name, FlowVersion: "1", DeploymentName: name, Spec: marshal(object{"tasks": tasks}), Zip: buf.Bytes(),
	})
	return err
}
