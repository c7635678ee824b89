// Command browser checks the pages by which users sign in with a real Chromium:
// it serves a server of its own, signs in, approves devices, and fails if the
// page does not do what it should, if the browser reports an error or a blocked
// load, or if a token is left in the browser.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"millrace/localstack/client"
	"millrace/localstack/embedded/server"
	"millrace/localstack/embedded/signin"
)

// patience is the timeout of the whole check. The start of the browser takes most
// of it.
const patience = 5 * time.Minute

func main() {
	program := flag.String("chromium", "chromium", "the browser: Chromium, or Chrome")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := run(ctx, *program); err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
		os.Exit(1)
	}
}

// world is a server, and the output that its operator sees.
type world struct {
	signin.Credentials
	codes  chan string // one-time codes
	device *client.Client
}

func run(ctx context.Context, program string) (err error) {
	dir, err := os.MkdirTemp("", "millrace-browser-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	w := &world{codes: make(chan string, 100)}
	s, err := server.Open(ctx, server.Config{
		Dir: dir, Listen: "127.0.0.1:0", NoTick: true, Version: "browser", Log: slog.New(slog.DiscardHandler),
		SignInCode: func(code string) { w.codes <- code },
	})
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- s.Serve(serving) }()
	defer func() {
		stop()
		err = errors.Join(err, <-served)
	}()
	w.Credentials = s.Credentials()
	w.device = &client.Client{BaseURL: w.BaseURL}
	return w.check(ctx, program)
}

// start starts the authorization of a device.
func (w *world) start(ctx context.Context) (deviceCode, userCode string, err error) {
	var begun struct {
		DeviceCode string `json:"device_code"`
		UserCode   string `json:"user_code"`
	}
	err = w.device.Do(ctx, "POST", "/auth/device/start", map[string]any{}, &begun)
	return begun.DeviceCode, begun.UserCode, err
}

// redeem returns the workspace of the token that the device gets.
func (w *world) redeem(ctx context.Context, deviceCode string) (org string, err error) {
	var made struct {
		AccessToken string `json:"access_token"`
		OrgID       string `json:"org_id"`
	}
	if err := w.device.Do(ctx, "POST", "/auth/device/token", map[string]any{"device_code": deviceCode}, &made); err != nil {
		return "", err
	}
	if made.AccessToken == "" {
		return "", errors.New("the device got no token")
	}
	return made.OrgID, nil
}

// workspace creates another workspace of the owner.
func (w *world) workspace(ctx context.Context, name string) (org string, err error) {
	var session struct {
		IDToken string `json:"id_token"`
	}
	operator := &client.Client{BaseURL: w.BaseURL, Token: w.LocalSecret}
	if err := operator.Do(ctx, "POST", signin.SignInPath, map[string]any{"email": w.Email}, &session); err != nil {
		return "", err
	}
	var made struct {
		OrgID string `json:"org_id"`
	}
	owner := &client.Client{BaseURL: w.BaseURL, Token: session.IDToken}
	err = owner.Do(ctx, "POST", "/orgs", map[string]any{"name": name}, &made)
	return made.OrgID, err
}
