// Package cloud runs a deployment on one machine: the resources of the
// synthesized templates in emulators of AWS's services, every function as a
// process of the real bootstrap with the environment from its template, the API
// routed by its document, and this process in place of Lambda and EventBridge.
// It runs what is deployed, except for what [resources] lists as having no
// counterpart.
package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"millrace/localstack/cloud/access"
	"millrace/localstack/cloud/fleet"
	"millrace/localstack/cloud/gateway"
	"millrace/localstack/cloud/resources"
	"millrace/localstack/cloud/template"
	"millrace/localstack/cloud/triggers"
	"millrace/localstack/embedded/signin"
	"millrace/localstack/emulators"
	"millrace/localstack/localhost"
	"millrace/localstack/runtimeapi"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/platform/table/dynamo"
)

// closePatience is how long requests in flight may take when closing.
const closePatience = 2 * time.Second

// Config configures a Cloud.
type Config struct {
	Assembly  *template.Assembly
	Services  *emulators.Services // not stopped by Close
	Bootstrap string              // the program of the catalog's functions, for this machine
	Python    string              // interpreter of the sandbox functions; "" means python3

	Dir    string // for keys, credentials and processes; created if missing
	Listen string // host:port of the API; port 0 means a free one

	Version     string   // of the service; "" means the template's, or else the bootstrap's
	SuperAdmins []string // emails of the platform's administrators
	AllowRanges []string // CIDR ranges that calls on behalf of users may reach besides public addresses
	LogLevel    string   // of functions; "" means the template's

	SignInCode func(code string) // shows the one-time code that a browser is asked for; nil: no browser can sign in

	Output func(function string) io.Writer // returns the destination of a function's output; may be nil
	Log    *slog.Logger                    // nil: none
}

// Cloud is a running deployment.
type Cloud struct {
	URL         string // of the API
	Credentials signin.Credentials
	Table       table.Table
	Deployment  *resources.Deployment
	Services    resources.Services
	Fleet       *fleet.Fleet
	Triggers    *triggers.Triggers
	Access      *access.Gate // holds each function to its role

	cfg     Config
	servers []*http.Server
	gate    *http.Server      // of Access; outlives the others
	invoke  string            // URL of Lambda's Invoke
	local   map[string]string // addresses of functions' URLs here, by those in the template
}

// Open creates the resources and serves the API, with a first workspace and its
// API key. Functions answer requests, but no triggers run before Start.
func Open(ctx context.Context, cfg Config) (_ *Cloud, err error) {
	c := &Cloud{cfg: cfg}
	if cfg.Log == nil {
		c.cfg.Log = slog.New(slog.DiscardHandler)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if c.cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	on := cfg.Services
	c.Services = resources.NewServices(on)
	c.Deployment, err = resources.Make(ctx, cfg.Assembly, resources.Where{
		Services: c.Services, Region: on.SQS.Config().Region, AccountID: on.AccountID,
	})
	if err != nil {
		return nil, fmt.Errorf("cloud: %w", err)
	}
	return c, c.serve(ctx)
}

// serve runs the functions behind their API.
func (c *Cloud) serve(ctx context.Context) error {
	api, err := net.Listen("tcp", cmp.Or(c.cfg.Listen, "127.0.0.1:0"))
	if err != nil {
		return fmt.Errorf("cloud: %w", err)
	}
	invoke, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return errors.Join(fmt.Errorf("cloud: %w", err), api.Close())
	}
	c.URL, c.invoke = "http://"+api.Addr().String(), "http://"+invoke.Addr().String()

	urls, err := c.listenURLs()
	var issuer *signin.Issuer
	if err == nil {
		issuer, err = signin.Open(c.cfg.Dir, c.URL, clock.System{})
	}
	var functions []fleet.Function
	if err == nil {
		issuer.Tell(c.cfg.SignInCode)
		err = c.openGate()
	}
	if err == nil {
		functions, err = c.functions()
	}
	if err != nil {
		for _, on := range urls {
			err = errors.Join(err, on.Close())
		}
		return errors.Join(err, api.Close(), invoke.Close())
	}
	c.Fleet = fleet.New(filepath.Join(c.cfg.Dir, "functions"), c.cfg.Output, functions...)
	c.Triggers = triggers.New(triggers.Config{
		SQS: c.receiver(), Region: c.cfg.Services.SQS.Config().Region, AccountID: c.cfg.Services.AccountID, Log: c.cfg.Log,
		Invoke: func(ctx context.Context, function string, payload []byte) ([]byte, error) {
			answer, err := c.Fleet.Invoke(ctx, function, "", payload)
			if err != nil {
				return nil, err
			}
			return answer.Bytes()
		},
	})
	calls := http.NewServeMux()
	calls.Handle(fleet.InvokePattern, c.Fleet)
	c.serveURLs(urls)
	c.run(invoke, localhost.Only(calls)) // requires no credential, like the emulators
	if c.Table, err = c.openTable(); err == nil {
		c.Credentials, err = signin.EnsureCredentials(ctx, c.cfg.Dir, c.URL, c.Table, clock.System{})
	}
	if err != nil {
		return errors.Join(err, api.Close())
	}
	c.run(api, c.routes(issuer))
	return nil
}

func (c *Cloud) run(on net.Listener, handler http.Handler) {
	c.servers = append(c.servers, c.start(on, handler))
}

func (c *Cloud) start(on net.Listener, handler http.Handler) *http.Server {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(c.cfg.Log.Handler(), slog.LevelWarn)}
	go func() { _ = server.Serve(on) }() // ends with Close
	return server
}

// routes combines the API and the local sign-in.
func (c *Cloud) routes(issuer *signin.Issuer) http.Handler {
	api := gateway.New(gateway.Config{
		Stage: c.Deployment.API.Stage, Routes: c.Deployment.API.Routes, Responses: c.Deployment.API.Responses, Log: c.cfg.Log,
		Invoke: func(ctx context.Context, function string, payload []byte) (*runtimeapi.Answer, error) {
			return c.Fleet.Invoke(ctx, function, "", payload)
		},
	})
	local := http.NewServeMux()
	issuer.Mount(local)
	local.HandleFunc("GET "+AccessPath, c.reportAccess)
	guarded, open := localhost.Only(c.Credentials.Keys().Bearer(local)), localhost.Only(local)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case path == signin.DiscoveryPath, path == signin.KeysPath:
			local.ServeHTTP(w, r)
		case signin.ForBrowsers(path):
			open.ServeHTTP(w, r)
		case path == signin.SignInPath, path == AccessPath:
			guarded.ServeHTTP(w, r)
		default:
			api.ServeHTTP(w, r)
		}
	})
}

// openTable opens the deployment's table like a function.
func (c *Cloud) openTable() (table.Table, error) {
	if len(c.Deployment.Tables) != 1 {
		return nil, fmt.Errorf("cloud: the templates have %d tables, not one", len(c.Deployment.Tables))
	}
	return dynamo.New(dynamo.Config{
		Table: c.Deployment.Tables[0], AWS: func(context.Context) (aws.Config, error) { return c.cfg.Services.DynamoDB.Config(), nil },
	}), nil
}

// Start starts the triggers in the templates.
func (c *Cloud) Start() {
	for _, m := range c.Deployment.Mappings {
		c.Triggers.Feed(m)
	}
	for _, s := range c.Deployment.Schedules {
		c.Triggers.Fire(s)
	}
}

// Close ends everything and waits until all processes have exited. The
// resources stay in their services.
func (c *Cloud) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	if c.Fleet != nil {
		go c.Triggers.Stop()
	}
	var errs []error
	for i := len(c.servers) - 1; i >= 0; i-- { // the API first
		if c.servers[i].Shutdown(ctx) != nil {
			errs = append(errs, c.servers[i].Close())
		}
	}
	if c.Fleet != nil {
		errs = append(errs, c.Fleet.Close())
		c.Triggers.Stop()
	}
	if c.gate != nil {
		errs = append(errs, c.gate.Close())
	}
	return errors.Join(errs...)
}
