package proc

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"millrace/localstack/client"
	"millrace/localstack/embedded/signin"
)

// startPatience is how long a server may take to become healthy.
const startPatience = 30 * time.Second

// Server is the embedded server as a child of this process.
type Server struct {
	*Child
	Credentials signin.Credentials // once it is healthy
	Startup     time.Duration      // time from its start until it was healthy

	dir, base string
	begin     time.Time
}

// Serve runs binary serve --data dir on a free port with further flags, and
// waits until it is healthy. Its output also goes to log, unless that is nil.
func Serve(ctx context.Context, binary, dir string, log io.Writer, flags ...string) (*Server, error) {
	s, err := StartServer(binary, dir, log, flags...)
	if err != nil {
		return nil, err
	}
	if err := s.AwaitHealthy(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// StartServer is [Serve] without waiting: call [Server.AwaitHealthy] next.
func StartServer(binary, dir string, log io.Writer, flags ...string) (*Server, error) {
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, base: "http://" + address, begin: time.Now()}
	s.Child, err = Start(exec.Command(binary, append([]string{"serve", "--data", dir, "--listen", address}, flags...)...), log)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// AwaitHealthy waits until the server is healthy. If it ends or is not healthy
// in time, it is killed, and the error contains its output.
func (s *Server) AwaitHealthy(ctx context.Context) error {
	if err := s.AwaitReady(ctx, startPatience, s.healthy); err != nil {
		return fmt.Errorf("the server: %w", err)
	}
	s.Startup = time.Since(s.begin)
	return nil
}

func (s *Server) healthy(ctx context.Context) error {
	if _, err := (&client.Client{BaseURL: s.base}).WaitHealthy(ctx); err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(s.dir, signin.CredentialsFile))
	if err != nil {
		return err
	}
	return json.Unmarshal(data, &s.Credentials)
}

// Client returns a client with the API key of the first start.
func (s *Server) Client() *client.Client {
	return &client.Client{BaseURL: s.Credentials.BaseURL, Token: s.Credentials.APIKey}
}

// Local returns a client of the local routes, with the local secret.
func (s *Server) Local() *client.Client {
	return &client.Client{BaseURL: s.Credentials.BaseURL, Token: s.Credentials.LocalSecret}
}

// Range of ports for FreeAddress. They are below the ports that systems assign
// to connections and to listeners on any port (from 32,768 on Linux, 49,152
// elsewhere), so that none of these takes the port before the program listens.
const (
	firstPort = 20_000
	ports     = 12_000
)

// FreeAddress returns an address on 127.0.0.1 with an unused port, so that a
// program's address is known before it listens.
func FreeAddress() (addr string, err error) {
	for range 100 {
		addr = fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(ports))
		var l net.Listener
		if l, err = net.Listen("tcp", addr); err == nil {
			return addr, l.Close()
		}
	}
	return "", err
}
