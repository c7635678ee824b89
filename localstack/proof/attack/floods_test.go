package attack

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"millrace/localstack/client"
)

// refused reports whether an error is that of a limit.
func refused(err error) bool {
	answer, ok := errors.AsType[*client.Error](err)
	return ok && answer.Status == http.StatusTooManyRequests
}

// flood starts runs that do not end, until a limit is reached or the time is
// over.
func flood(a *attacker) {
	tasks := many(size(100, 1000), func(name string) object {
		return object{"name": name, "type": "wait", "config": object{"seconds": 3600}}
	})
	if err := register(a.ctx, a.api, "flood", tasks...); err != nil {
		a.problem("%v", err)
		return
	}
	a.until429(16, client.RunRequest{FlowName: "flood", FlowVersion: "1"})
	if *full && a.Answers["429"] == 0 {
		a.problem("no limit is met")
	}
}

// wideFlood starts runs with very many instances, most of which must wait.
func wideFlood(a *attacker) {
	each := transform("each", "item")
	each["map_over"] = fmt.Sprintf("lists.range(%d)", size(500, 10_000))
	if err := register(a.ctx, a.api, "wide", each); err != nil {
		a.problem("%v", err)
		return
	}
	a.until429(16, client.RunRequest{FlowName: "wide", FlowVersion: "1"})
}

// until429 starts runs until each worker was rejected a few times. Workers
// ignore Retry-After.
func (a *attacker) until429(workers int, in client.RunRequest) {
	var met atomic.Int64
	a.forever(workers, func(int) {
		if met.Load() > 500 {
			pause(a.ends, 50*time.Millisecond)
		}
		_, err := a.api.Start(a.ends, in)
		a.counted("POST /runs", err)
		if refused(err) {
			met.Add(1)
		}
	})
}

// directories completes uploads of zips that consist only of a directory.
func directories(a *attacker) {
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for i := range size(60_000, 1_000_000) {
		if _, err := w.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("%07d", i)}); err != nil {
			a.problem("%v", err)
			return
		}
	}
	if err := w.Close(); err != nil {
		a.problem("%v", err)
		return
	}
	a.forever(4, func(i int) {
		ctx, cancel := context.WithTimeout(a.ctx, answerPatience)
		defer cancel()
		spec := marshal(object{"tasks": []object{python("x")}})
		_, err := a.api.Upload(ctx, client.Upload{FlowName: fmt.Sprint("zip-", i), FlowVersion: "1", DeploymentName: "zip", Spec: spec, Zip: buf.Bytes()})
		if err == nil {
			a.problem("a zip of %d files is taken", size(60_000, 1_000_000))
		}
		a.counted("POST /artifacts/complete", err)
	})
}

// uploads sends more than was declared, and begins uploads without completing
// them.
func uploads(a *attacker) {
	web := newHTTP(answerPatience)
	var begun struct {
		Parts []struct {
			UploadURL string `json:"upload_url"`
		} `json:"parts"`
	}
	body := object{"flow_name": "large", "flow_version": "1", "size_bytes": partSize}
	if err := a.do(a.ctx, http.MethodPost, "/artifacts/initiate", body, &begun); err != nil {
		a.problem("%v", err)
		return
	}
	for _, told := range []bool{true, false} {
		status, taken := put(a.ctx, web, begun.Parts[0].UploadURL, size[int64](16, 400)<<20, told)
		a.answer(fmt.Sprintf("PUT %s", status))
		if status == "200" {
			a.problem("%d MB are taken where %d bytes were declared", taken>>20, partSize)
		}
	}
	a.forever(8, func(i int) {
		ctx, cancel := context.WithTimeout(a.ends, impatience())
		defer cancel()
		body := object{"flow_name": fmt.Sprint("open-", i), "flow_version": "1", "size_bytes": 100 << 20}
		if refused(a.do(ctx, http.MethodPost, "/artifacts/initiate", body, nil)) {
			pause(a.ends, 50*time.Millisecond)
		}
	})
}
