package access

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// maxBody is the largest body that a gate reads, in bytes: more than a service
// takes in a request of JSON.
const maxBody = 20 << 20

// Role is what a caller may do.
type Role struct {
	Name   string // for messages: that of the function
	Policy Policy
	Tags   map[string]string // of the session; nil for none
}

// Config configures a Gate.
type Config struct {
	Place    Place
	Keys     Keys
	Services map[string]string // URLs of the services behind the gate, by the name that requests are signed for
	Roles    map[string]Role   // by access key id
	Log      *slog.Logger      // of calls that were denied; nil: none
}

// Gate passes requests on to the services behind it, if the role of their
// caller allows all their calls. Others are answered as AWS does: with an
// access denied. It is safe for concurrent use.
type Gate struct {
	cfg     Config
	proxies map[string]http.Handler

	mu     sync.Mutex
	denied map[string]bool
	used   map[string]map[string]bool // permissions, by name of the role
}

// New returns a gate. It fails if the URL of a service is invalid.
func New(cfg Config) (*Gate, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	g := &Gate{cfg: cfg, proxies: map[string]http.Handler{}, denied: map[string]bool{}, used: map[string]map[string]bool{}}
	for service, address := range cfg.Services {
		target, err := url.Parse(address)
		if err != nil {
			return nil, fmt.Errorf("access: %w", err)
		}
		g.proxies[service] = &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(target)
				r.Out.Host = r.In.Host // which is signed
			},
			ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
				if r.Context().Err() == nil { // the caller waits
					g.cfg.Log.Warn("a service does not answer", "service", service, "error", err)
				}
				w.WriteHeader(http.StatusBadGateway)
			},
		}
	}
	return g, nil
}

// ServeHTTP implements http.Handler.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	credential, err := CredentialOf(r)
	if err != nil {
		g.refuse(w, "", "somebody", err.Error())
		return
	}
	role, known := g.cfg.Roles[credential.AccessKeyID]
	proxy, served := g.proxies[credential.Service]
	if !known || !served {
		g.refuse(w, credential.Service, credential.AccessKeyID, "the credential is of no role, or for a service that is not known")
		return
	}
	body, err := g.body(credential.Service, w, r)
	if err == nil {
		err = g.check(role, credential.Service, r, body)
	}
	if err != nil {
		g.refuse(w, credential.Service, role.Name, err.Error())
		return
	}
	proxy.ServeHTTP(w, r)
}

// body reads the body of a request, if its calls depend on it, and puts it back.
func (g *Gate) body(service string, w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if !hasBody(service, r) {
		return nil, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, nil
}

// check returns why a role does not allow a request.
func (g *Gate) check(role Role, service string, r *http.Request, body []byte) error {
	calls, err := Calls(g.cfg.Place, service, r, body)
	if err != nil {
		return err
	}
	return g.Check(role, calls...)
}

// Check returns why a role does not allow calls, with those to KMS that they
// bring with them, and records the permissions that it used. The error is that
// of the first call.
func (g *Gate) Check(role Role, calls ...Call) error {
	for _, call := range calls {
		for _, c := range append([]Call{call}, g.cfg.Keys.Of(g.cfg.Place, call)...) {
			for name, value := range role.Tags {
				if c.Context == nil {
					c.Context = Context{}
				}
				c.Context["aws:PrincipalTag/"+name] = []string{value}
			}
			d, err := role.Policy.Decide(c)
			switch {
			case err != nil:
				return err
			case d.Explicit:
				return fmt.Errorf("not authorized to perform %s on %s with an explicit deny in the statement %s (%v)", c.Action, c.Resource, d.Sid, c.Context)
			case !d.Allowed:
				return fmt.Errorf("not authorized to perform %s on %s because no statement allows it (%v)", c.Action, c.Resource, c.Context)
			}
			g.use(role.Name, d.Sid+" "+c.Action)
		}
	}
	return nil
}

func (g *Gate) use(role, permission string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.used[role] == nil {
		g.used[role] = map[string]bool{}
	}
	g.used[role][permission] = true
}

// refuse records and answers a request that is denied: S3 answers in XML,
// services with a target in JSON with the status 400.
func (g *Gate) refuse(w http.ResponseWriter, service, who, why string) {
	text := who + ": " + why
	g.mu.Lock()
	g.denied[text] = true
	g.mu.Unlock()
	g.cfg.Log.Error("access denied", "role", who, "reason", why)
	if service == "s3" {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>") // the client may have disconnected
		return
	}
	status := http.StatusBadRequest
	if service == "lambda" || service == "ses" {
		status = http.StatusForbidden
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.Header().Set("X-Amzn-Errortype", "AccessDeniedException")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"__type":"AccessDeniedException","message":%q,"Message":%q}`, text, text) // the client may have disconnected
}

// Denied returns what was denied, each once, in order.
func (g *Gate) Denied() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Keys(g.denied))
}

// Unused returns what no call has used of the roles, in order: "role Sid" for a
// statement, and "role Sid action" for an action of a statement that was used.
func (g *Gate) Unused() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := map[string]bool{}
	for _, role := range g.cfg.Roles {
		used := map[string]bool{} // Sids
		for permission := range g.used[role.Name] {
			sid, _, _ := strings.Cut(permission, " ")
			used[sid] = true
		}
		for _, permission := range role.Policy.Permissions() {
			sid, _, _ := strings.Cut(permission, " ")
			switch {
			case !used[sid]:
				out[role.Name+" "+sid] = true
			case !g.used[role.Name][permission]:
				out[role.Name+" "+permission] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(out))
}
