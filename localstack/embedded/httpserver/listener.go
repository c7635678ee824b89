package httpserver

import (
	"net"
	"time"
)

// sendBuffer bounds the bytes of a response that the kernel buffers for a
// client that does not read. Half a megabyte in total allows 5 MB/s at 100 ms.
const sendBuffer = 256 << 10

// refusal is the response to a connection beyond the limit, which is then
// closed.
const refusal = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n\r\n" +
	`{"detail":"The server has too many connections at work"}` + "\n"

// listener counts the connections that it accepts.
type listener struct {
	net.Listener
	conns *table
}

// Accept returns the next connection that fits the limit.
func (l *listener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if tcp, ok := nc.(*net.TCPConn); ok {
			_ = tcp.SetWriteBuffer(sendBuffer) // saves memory; not needed to serve
		}
		if c := l.conns.add(nc); c != nil {
			return c, nil
		}
		_ = nc.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = nc.Write([]byte(refusal)) // fits the buffer
		_ = nc.Close()
	}
}
