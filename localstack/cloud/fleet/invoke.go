package fleet

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"millrace/localstack/runtimeapi"
)

// InvokePattern is the route of Lambda's Invoke API, for [Fleet.ServeHTTP].
const InvokePattern = "POST /2015-03-31/functions/{name}/invocations"

// maxPayload is the largest payload that Lambda accepts, in bytes.
const maxPayload = 6 << 20

// ServeHTTP serves Lambda's Invoke API, without authentication, for a function
// given by name, name and version, or ARN. It responds with the function's
// answer, or, for invocations of type Event, with an acknowledgement.
func (f *Fleet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	payload, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPayload))
	if err != nil {
		writeError(w, http.StatusRequestEntityTooLarge, "RequestTooLargeException", "the payload is too large")
		return
	}
	name, tenant := functionName(r.PathValue("name")), r.Header.Get("X-Amz-Tenant-Id")
	if r.Header.Get("X-Amz-Invocation-Type") == "Event" {
		f.later(w, name, tenant, payload)
		return
	}
	answer, err := f.Invoke(r.Context(), name, tenant, payload)
	w.Header().Set("Content-Type", "application/json")
	if fault := (*runtimeapi.Fault)(nil); errors.As(err, &fault) {
		w.Header().Set("X-Amz-Function-Error", "Unhandled")
		_ = json.NewEncoder(w).Encode(fault) // the client may have disconnected
		return
	}
	if err != nil {
		rejectInvocation(w, err)
		return
	}
	defer answer.Body.Close()
	w.Header().Set("X-Amz-Executed-Version", "$LATEST")
	_, _ = io.Copy(w, answer.Body) // the client may have disconnected
}

// later runs an asynchronous invocation.
func (f *Fleet) later(w http.ResponseWriter, name, tenant string, payload []byte) {
	function, found := f.Find(name)
	switch {
	case !found:
		rejectInvocation(w, ErrUnknown)
		return
	case function.Tenants && tenant == "":
		rejectInvocation(w, ErrNoTenant)
		return
	}
	go func() {
		answer, err := f.Invoke(f.running, name, tenant, payload)
		if err == nil {
			_, err = answer.Bytes()
		}
		if err != nil && f.log != nil {
			_, _ = io.WriteString(f.log(name), "an event that nobody waited for failed: "+err.Error()+"\n") // a log
		}
	}()
	w.WriteHeader(http.StatusAccepted)
}

// rejectInvocation responds to an invocation that was not started.
func rejectInvocation(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, ErrUnknown):
		writeError(w, http.StatusNotFound, "ResourceNotFoundException", err.Error())
	case errors.Is(err, ErrNoTenant):
		writeError(w, http.StatusBadRequest, "InvalidParameterValueException", "Add a valid tenant ID in your request and try again.")
	default:
		writeError(w, http.StatusInternalServerError, "ServiceException", err.Error())
	}
}

// functionName returns the name in a name, name:version or ARN, as Lambda does.
func functionName(s string) string {
	if _, after, found := strings.Cut(s, ":function:"); found {
		s = after
	}
	name, _, _ := strings.Cut(s, ":")
	return name
}

// writeError responds as the Lambda service does if it invokes nothing.
func writeError(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Amzn-Errortype", kind)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"Type": "User", "message": message}) // the client may have disconnected
}
