package objectstore

import (
	"context"
	"net/http"
	"sync"

	"github.com/gofiber/fiber/v3"
)

// gate counts requests in flight, so that closing waits for them and not, as
// the gateway does, for clients to close idle connections.
type gate struct {
	mu      sync.Mutex
	open    int
	closing bool
	empty   chan struct{} // closed when the gate is closing and no request is in flight
}

func newGate() *gate { return &gate{empty: make(chan struct{})} }

// pass is middleware that admits requests until the gate closes.
func (g *gate) pass(ctx fiber.Ctx) error {
	if !g.enter() {
		ctx.Set(fiber.HeaderConnection, "close")
		return ctx.SendStatus(http.StatusServiceUnavailable)
	}
	defer g.leave()
	return ctx.Next()
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing {
		return false
	}
	g.open++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open--; g.closing && g.open == 0 {
		close(g.empty)
	}
}

// close rejects further requests and reports whether those in flight ended
// before ctx. It must be called once.
func (g *gate) close(ctx context.Context) bool {
	g.mu.Lock()
	g.closing = true
	if g.open == 0 {
		close(g.empty)
	}
	g.mu.Unlock()
	select {
	case <-g.empty:
		return true
	case <-ctx.Done():
		return false
	}
}
