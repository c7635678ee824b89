package cloud

import (
	"context"
	"fmt"
	"net"

	"millrace/localstack/cloud/gateway"
	"millrace/localstack/runtimeapi"
)

// listenURLs gives the functions' URLs local addresses. The listeners are by
// function.
func (c *Cloud) listenURLs() (map[string]net.Listener, error) {
	listeners := map[string]net.Listener{}
	c.local = map[string]string{}
	for _, u := range c.Deployment.URLs {
		on, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return listeners, fmt.Errorf("cloud: %w", err)
		}
		listeners[u.Function], c.local[u.Address] = on, "http://"+on.Addr().String()
	}
	return listeners, nil
}

// serveURLs serves the functions' URLs.
func (c *Cloud) serveURLs(listeners map[string]net.Listener) {
	for _, u := range c.Deployment.URLs {
		c.run(listeners[u.Function], &gateway.URL{Open: u.Open, Log: c.cfg.Log, Invoke: func(ctx context.Context, payload []byte) (*runtimeapi.Answer, error) {
			return c.Fleet.Invoke(ctx, u.Function, "", payload)
		}})
	}
}

// FunctionURL returns the local address of the only URL of a function, "" if
// there is none.
func (c *Cloud) FunctionURL(function string) string {
	for _, u := range c.Deployment.URLs {
		if u.Function == function {
			return c.local[u.Address]
		}
	}
	return ""
}
