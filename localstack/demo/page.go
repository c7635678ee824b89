package demo

import (
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// page is the web page that the demo's flows call.
type page struct {
	URL    string
	server *http.Server
	up     atomic.Bool
}

// openPage serves /prices.json, and /channel, which is down until repaired.
func openPage() (*page, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &page{URL: "http://" + listener.Addr().String()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /prices.json", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, `{"tea": 3, "jam": 4, "oat": 2}`)
	})
	mux.HandleFunc("GET /channel", func(w http.ResponseWriter, _ *http.Request) {
		if !p.up.Load() {
			answer(w, http.StatusServiceUnavailable, `{"error": "down for repair"}`)
			return
		}
		answer(w, http.StatusOK, `{"channel": "weekly"}`)
	})
	p.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = p.server.Serve(listener) }() // ends with Close
	return p, nil
}

// Close stops serving.
func (p *page) Close() { _ = p.server.Close() }

func (p *page) repair() { p.up.Store(true) }

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // the task gave up
}
