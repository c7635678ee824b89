package crash

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// attempt identifies one attempt of a task or instance of a run.
type attempt struct {
	run, task     string
	index, number int // index -1: not an instance
}

// page is the server that tasks call: it counts HTTP calls by tag and task, and
// records reports of Python functions. It outlives every server.
type page struct {
	*httptest.Server
	notes net.Listener

	mu           sync.Mutex
	calls        map[string]int // by "tag/task"
	repaired     map[string]bool
	begun, ended map[attempt]int
}

func newPage() (*page, error) {
	p := &page{calls: map[string]int{}, repaired: map[string]bool{}, begun: map[attempt]int{}, ended: map[attempt]int{}}
	var err error
	if p.notes, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	p.Server = httptest.NewServer(http.HandlerFunc(p.answer))
	go p.listen()
	return p, nil
}

func (p *page) close() {
	p.notes.Close()
	p.Server.Close()
}

// port returns the port for reports.
func (p *page) port() string {
	_, port, _ := net.SplitHostPort(p.notes.Addr().String())
	return port
}

// answer serves GET /<kind>/<tag>/<task>.
func (p *page) answer(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if len(parts) != 3 {
		http.NotFound(w, r)
		return
	}
	p.mu.Lock()
	name := parts[1] + "/" + parts[2]
	p.calls[name]++
	fails := kind(parts[0]) == shaky && p.calls[name] == 1 || kind(parts[0]) == down && !p.repaired[parts[1]]
	p.mu.Unlock()
	if fails {
		http.Error(w, "as drawn", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprint(w, "here")
}

func (p *page) repair(tag string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.repaired[tag] = true
}

func (p *page) listen() {
	for {
		conn, err := p.notes.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			line, err := bufio.NewReader(conn).ReadString('\n')
			if err != nil {
				return // its process was killed
			}
			var what string
			var a attempt
			if _, err := fmt.Sscan(line, &what, &a.run, &a.task, &a.index, &a.number); err != nil {
				return
			}
			p.mu.Lock()
			if what == "begin" {
				p.begun[a]++
			} else {
				p.ended[a]++
			}
			p.mu.Unlock()
			_, _ = conn.Write([]byte{'.'})
		}()
	}
}
