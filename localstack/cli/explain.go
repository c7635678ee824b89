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

// code returns the exit code of an error.
func code(err error) int {
	apiErr, isAPIError := errors.AsType[*client.Error](err)
	_, isCommandError := errors.AsType[*command.Error](err)
	switch {
	case err == nil:
		return command.Done
	case isCommandError:
		return command.Code(err)
	case errors.Is(err, context.Canceled):
		return command.Interrupted
	case !isAPIError:
		return command.Failure
	}
	switch apiErr.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return command.NotAllowed
	case http.StatusNotFound, http.StatusGone:
		return command.NotFound
	}
	return command.Failure
}

// explain returns the message for the user, "" if everything was printed already.
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
	apiErr, ok := errors.AsType[*client.Error](err)
	if !ok {
		return err.Error()
	}
	text := apiErr.Detail()
	if before, _, wrapped := strings.Cut(err.Error(), apiErr.Error()); wrapped {
		text = before + text
	}
	if apiErr.RequestID != "" {
		text += " (request " + apiErr.RequestID + ")"
	}
	switch apiErr.Status {
	case http.StatusUnauthorized:
		text += "\nmillrace login signs in; millrace doctor shows which server and key are used"
	case http.StatusNotFound:
		if strings.HasPrefix(apiErr.Path, "/runs/") {
			text += "\nmillrace runs lists the runs"
		}
	}
	return text
}

// server returns the address of the server, without the path of a request.
func server(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Scheme + "://" + u.Host
}
