package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"millrace/localstack/cli/command"
	"millrace/localstack/client"
)

// code is the exit code of an error.
func code(err error) int {
	refused, isRefusal := errors.AsType[*client.Error](err)
	_, told := errors.AsType[*command.Error](err)
	switch {
	case err == nil:
		return command.Done
	case told:
		return command.Code(err)
	case errors.Is(err, context.Canceled):
		return command.Interrupted
	case !isRefusal:
		return command.Failure
	}
	switch refused.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return command.NotAllowed
	case http.StatusNotFound, http.StatusGone:
		return command.NotFound
	}
	return command.Failure
}

// explain is what the user reads of an error; "" if all was said.
func explain(err error) string {
	if e, ok := errors.AsType[*command.Error](err); ok && e.Err == nil {
		return ""
	}
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	if e, ok := errors.AsType[*url.Error](err); ok && errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Sprintf("%s does not answer: start a server with millrace serve, or name another with --url", server(e.URL))
	}
	refused, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err.Error()
	}
	text := refused.Detail()
	if before, _, wrapped := strings.Cut(err.Error(), refused.Error()); wrapped {
		text = before + text
	}
	if refused.RequestID != "" {
		text += " (request " + refused.RequestID + ")"
	}
	switch refused.Status {
	case http.StatusUnauthorized:
		text += "\nmillrace login signs in; millrace doctor tells which server and key are used"
	case http.StatusNotFound:
		if strings.HasPrefix(refused.Path, "/runs/") {
			text += "\nmillrace runs lists the runs"
		}
	}
	return text
}

// server is the address of the server in the URL of a request.
func server(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Scheme + "://" + u.Host
}
