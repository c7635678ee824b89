// Package shared_test holds the rules by which packages may import each other.
package shared_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "millrace/"

// rooms are the folders of shared, and of each the rooms that its packages may
// import besides their own.
var rooms = map[string][]string{
	"platform": {},
	"kit":      {"platform", "account"},
	"account":  {"platform", "kit"},
	"run":      {"platform", "kit", "account"},
	"web":      {"platform", "kit", "account", "run"},
}

// layers lists the packages of shared from the leaves up: a package imports
// none of its own line or of a later one, but what stands in its own folder.
// Drivers and suites stand with their port.
var layers = [][]string{
	{"errs", "clock", "ids", "notify", "mask", "telemetry", "awsretry", "awsenv", "cache", "regex", "cron"},
	{"tier", "budget", "keyring"},
	{"tenant", "table", "blob", "bus", "vault", "signature", "mail", "expr", "outbound"},
	{"queue", "ratelimit"}, // large messages go through the object store
	{"quota", "due"},
	{"audit", "flowspec", "sandbox", "retention"},
	{"engine", "record", "consumer", "tasktype"},
	{"identity"},
	{"runstate", "secret", "alert", "schedule", "setting", "slots"},
	{"registry"},
	{"runlog", "executor", "usage"},
	{"launch", "worker"},
	{"cors"},
	{"httpapi"},
	{"fn"},
	{"gateway"},
}

// pure packages do no I/O: of the standard library they may not import these.
var pure = []string{"shared/run/engine", "shared/run/flowspec", "shared/run/tasktype", "shared/run/expr", "shared/account/tenant", "shared/kit/cron"}

var inputOutput = []string{"net", "net/http", "os", "os/exec", "database/sql", "log", "log/slog", "syscall"}

// speakAWS are the folders that may import the AWS SDK.
var speakAWS = []string{
	"shared/platform/awsretry", "shared/platform/awsenv", "shared/platform/table/dynamo", "shared/platform/queue/sqs", "shared/platform/blob/s3", "shared/platform/bus/eventbridge", "shared/platform/vault/kms", "shared/platform/signature/kms",
	"shared/platform/mail/ses",
	"shared/run/sandbox/invoke", "localstack/cloud", "localstack/emulators", "localstack/embedded/objectstore", "localstack/localhost",
	"functions/bootstrap", "infra/preflight",
	"localstack/proof/bench", // counts the requests of the driver that invokes sandboxes
}

type pkg struct {
	ImportPath string
	Imports    []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Dir = ".."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	var list []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		p.ImportPath = strings.TrimPrefix(p.ImportPath, module)
		list = append(list, p)
	}
	require.Greater(t, len(list), 30)
	return list
}

func layer(name string) int {
	return slices.IndexFunc(layers, func(l []string) bool { return slices.Contains(l, name) })
}

// first returns the first element of a path, and the package it leads to: of
// shared the third element, of everything else the second.
func first(path string) (top, name string) {
	parts := strings.Split(path, "/")
	at := 1
	if parts[0] == "shared" {
		at = 2
	}
	if len(parts) <= at {
		return parts[0], ""
	}
	return parts[0], parts[at]
}

// room returns the room of a package of shared.
func room(path string) string {
	_, rest, _ := strings.Cut(path, "/")
	name, _, _ := strings.Cut(rest, "/")
	return name
}

func TestImportsRunOneWay(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		top, name := first(p.ImportPath)
		if top == "shared" && name != "" {
			assert.GreaterOrEqual(t, layer(name), 0, "%s has no layer: give it one", p.ImportPath)
			assert.Contains(t, rooms, room(p.ImportPath), "%s is in no room", p.ImportPath)
		}
		for _, imp := range p.Imports {
			own, isOurs := strings.CutPrefix(imp, module)
			if strings.HasPrefix(imp, "github.com/aws/aws-sdk-go-v2") {
				assert.True(t, slices.ContainsFunc(speakAWS, func(dir string) bool { return p.ImportPath == dir || strings.HasPrefix(p.ImportPath, dir+"/") }),
					"%s speaks to AWS (%s): only drivers do", p.ImportPath, imp)
			}
			if slices.Contains(pure, p.ImportPath) {
				assert.NotContains(t, inputOutput, imp, "%s is pure", p.ImportPath)
			}
			if !isOurs {
				continue
			}
			itop, iname := first(own)
			switch {
			case top == "shared":
				assert.Contains(t, []string{"shared", "events"}, itop, "%s imports %s", p.ImportPath, own)
				if itop == "shared" && iname != name && !strings.HasSuffix(p.ImportPath, "test") {
					assert.Less(t, layer(iname), layer(name), "%s imports %s", p.ImportPath, own)
					if in := room(own); in != room(p.ImportPath) {
						assert.Contains(t, rooms[room(p.ImportPath)], in, "%s imports %s", p.ImportPath, own)
					}
				}
			case top == "functions":
				assert.NotEqual(t, "localstack", itop, "%s imports %s", p.ImportPath, own)
				if itop == "functions" && iname != name {
					assert.Contains(t, []string{"catalog", "bootstrap"}, name, "%s imports its sibling %s", p.ImportPath, own)
				}
			case top == "events":
				assert.Equal(t, "shared", itop)
				assert.LessOrEqual(t, layer(iname), layer("tier"), "%s imports %s", p.ImportPath, own)
			}
		}
	}
}
