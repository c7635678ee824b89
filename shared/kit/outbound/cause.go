package outbound

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// Cause returns the reason why a call failed, for the user it was made for:
// without its URL, which may contain a credential, and without the addresses of
// this machine and its name servers.
func Cause(err error) string {
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Sprintf("lookup %s: %s", e.Name, e.Err)
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Sprintf("%s: %v", e.Op, e.Err)
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if strings.HasPrefix(err.Error(), "failed to parse Location header") {
		return "the answer redirects to what is not a URL"
	}
	return err.Error()
}
