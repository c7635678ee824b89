// Package process runs the embedded server as a child process, for the demo and
// for the end-to-end tests.
package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"millrace/localstack/client"
	"millrace/localstack/embedded/signin"
)

// StartPatience is how long a server may take to become healthy.
const StartPatience = 30 * time.Second

// Server is a running server.
type Server struct {
	Credentials signin.Credentials // once it is healthy
	Command     *exec.Cmd
	Startup     time.Duration // from its start to healthy

	dir, base string
	begin     time.Time
	exited    chan struct{}
	err       error // of the exit, once exited is closed
}

// Start runs binary serve --data dir on a free port with further flags, and
// waits until it is healthy. Its output goes to log.
func Start(ctx context.Context, binary, dir string, log io.Writer, flags ...string) (*Server, error) {
	s, err := Spawn(binary, dir, log, flags...)
	if err != nil {
		return nil, err
	}
	if err := s.WaitHealthy(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Spawn is Start without the wait: [Server.WaitHealthy] follows.
func Spawn(binary, dir string, log io.Writer, flags ...string) (*Server, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, base: "http://" + address, begin: time.Now(), exited: make(chan struct{})}
	s.Command = exec.Command(binary, append([]string{"serve", "--data", dir, "--listen", address}, flags...)...)
	s.Command.Stdout, s.Command.Stderr = log, log
	if err := s.Command.Start(); err != nil {
		return nil, err
	}
	go func() {
		s.err = s.Command.Wait()
		close(s.exited)
	}()
	return s, nil
}

// WaitHealthy waits until the server is healthy. If it is not in time, or gives
// up, it is gone afterwards.
func (s *Server) WaitHealthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, StartPatience)
	defer cancel()
	go func() { // a server that gives up is waited for no longer
		select {
		case <-s.exited:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := s.waitHealthy(ctx); err != nil {
		select {
		case <-s.exited:
			return fmt.Errorf("the server ended: %w", errors.Join(s.err, err))
		default:
		}
		return errors.Join(fmt.Errorf("the server did not become healthy: %w", err), s.Kill())
	}
	s.Startup = time.Since(s.begin)
	return nil
}

// freeAddress picks a port that nobody uses, so that the server's is known
// before it listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func (s *Server) waitHealthy(ctx context.Context) error {
	if _, err := (&client.Client{BaseURL: s.base}).WaitHealthy(ctx); err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(s.dir, signin.CredentialsFile))
	if err != nil {
		return err
	}
	return json.Unmarshal(data, &s.Credentials)
}

// Client calls the server with the first start's API key.
func (s *Server) Client() *client.Client {
	return &client.Client{BaseURL: s.Credentials.BaseURL, Token: s.Credentials.APIKey}
}

// Stop asks the server to end and waits until it has. An exit code other than
// 0 is an error.
func (s *Server) Stop() error {
	if err := s.Command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-s.exited
	return s.err
}

// Kill ends the server as kill -9 does and waits until it is gone.
func (s *Server) Kill() error {
	if err := s.Command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-s.exited
	return nil
}

// Exited is closed when the server is gone.
func (s *Server) Exited() <-chan struct{} { return s.exited }
