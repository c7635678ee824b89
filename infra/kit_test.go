package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/localstack/emulators"
	"millrace/shared/web/fn"
)

var update = flag.Bool("update", false, "write the golden templates anew")

// scratch is the directory of the stand-ins for code and of the apps' output.
var scratch string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "millrace-infra-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(scratch)
		defer jsii.Close()
		defer emulators.StopAll()
		return m.Run()
	}())
}

type object = map[string]any

// resource is a resource of a template.
type resource struct {
	id, kind   string
	properties object
	all        object
}

// template is a synthesized stack.
type template struct {
	json      object
	resources []resource // by id
	protected bool       // against deletion
}

// deployment is a synthesized app.
type deployment struct {
	cfg                       Config
	specs                     []fn.Spec
	data, service, operations template
	keys, recovery            template // without resources if there is no backup in another region
}

func (d deployment) templates() map[string]template {
	all := map[string]template{"data": d.data, "service": d.service, "operations": d.operations}
	if d.cfg.BackupRegion != "" {
		all["keys"], all["recovery"] = d.keys, d.recovery
	}
	return all
}

func example() Config {
	return Config{Tenant: "acme", Region: "eu-west-1", Stage: "prod"}
}

// base is the deployment that most tests inspect. It is synthesized once.
var base = sync.OnceValues(func() (deployment, error) { return synthesize(example(), catalog.All(), "code") })

func deployed(t *testing.T) deployment {
	t.Helper()
	d, err := base()
	require.NoError(t, err)
	return d
}

// copied is the same with a backup in another region.
var copied = sync.OnceValues(func() (deployment, error) {
	cfg := example()
	cfg.BackupRegion = "eu-central-1"
	return synthesize(cfg, catalog.All(), "code")
})

func deployedWithBackup(t *testing.T) deployment {
	t.Helper()
	d, err := copied()
	require.NoError(t, err)
	return d
}

func synth(t *testing.T, cfg Config, specs []fn.Spec, program string) deployment {
	t.Helper()
	d, err := synthesize(cfg, specs, program)
	require.NoError(t, err)
	return d
}

// one serializes apps: the process behind them handles one call at a time.
var one sync.Mutex

// synthesize returns a deployment whose functions run a stand-in program.
func synthesize(cfg Config, specs []fn.Spec, program string) (deployment, error) {
	one.Lock()
	defer one.Unlock()
	root, err := os.MkdirTemp(scratch, "app-")
	if err != nil {
		return deployment{}, err
	}
	c := code{bootstrap: filepath.Join(root, "bootstrap"), sandbox: filepath.Join(root, "sandbox")}
	for dir, file := range map[string]string{c.bootstrap: "bootstrap", c.sandbox: "lambda_handler.py"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return deployment{}, err
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(program), 0o755); err != nil {
			return deployment{}, err
		}
	}
	app := awscdk.NewApp(&awscdk.AppProps{Outdir: jsii.String(filepath.Join(root, "out"))})
	s, err := newStacks(app, cfg, specs, c)
	if err != nil {
		return deployment{}, err
	}
	d := deployment{
		cfg: cfg, specs: specs, data: read(s.data), service: read(s.service), operations: read(s.operations),
	}
	if s.recovery != nil {
		d.keys, d.recovery = read(s.keys), read(s.recovery)
	}
	return d, nil
}

func read(stack awscdk.Stack) template {
	t := template{json: *assertions.Template_FromStack(stack, nil).ToJSON(), protected: *stack.TerminationProtection()}
	for id, r := range t.json["Resources"].(object) {
		all := r.(object)
		properties, _ := all["Properties"].(object)
		t.resources = append(t.resources, resource{id: id, kind: all["Type"].(string), properties: properties, all: all})
	}
	slices.SortFunc(t.resources, func(a, b resource) int { return strings.Compare(a.id, b.id) })
	return t
}

// of returns the resources of a kind, e.g. "SQS::Queue".
func (t template) of(kind string) []resource {
	return slices.DeleteFunc(slices.Clone(t.resources), func(r resource) bool { return r.kind != "AWS::"+kind })
}

// named returns the resource of a kind whose property has this value.
func (t template) named(kind, property, value string) (resource, bool) {
	list := t.of(kind)
	i := slices.IndexFunc(list, func(r resource) bool { return text(r.properties[property]) == value })
	if i < 0 {
		return resource{}, false
	}
	return list[i], true
}

// text formats a value of a template on one line: references as ${Id}, imports
// as ${import name}.
func text(v any) string {
	m, isObject := v.(object)
	switch {
	case !isObject:
		if s, ok := v.(string); ok {
			return s
		}
		data, _ := json.Marshal(v)
		return string(data)
	case m["Fn::Sub"] != nil:
		return text(m["Fn::Sub"])
	case m["Ref"] != nil:
		return "${" + text(m["Ref"]) + "}"
	case m["Fn::ImportValue"] != nil:
		return "${import " + text(m["Fn::ImportValue"]) + "}"
	case m["Fn::GetAtt"] != nil:
		path := m["Fn::GetAtt"].([]any)
		return "${" + text(path[0]) + "." + text(path[1]) + "}"
	}
	data, _ := json.Marshal(v)
	return string(data)
}

// texts returns text for each element of a list, or for a single value.
func texts(v any) []string {
	list, isList := v.([]any)
	if !isList {
		list = []any{v}
	}
	out := make([]string, len(list))
	for i, e := range list {
		out[i] = text(e)
	}
	return out
}

func number(v any) float64 {
	n, _ := v.(float64)
	return n
}

// policyStatements returns the statements of every policy of a template, by the
// id of the policy's resource.
func (t template) policyStatements() map[string][]object {
	out := map[string][]object{}
	add := func(where string, document any) {
		for _, s := range document.(object)["Statement"].([]any) {
			out[where] = append(out[where], s.(object))
		}
	}
	for _, r := range t.resources {
		for _, property := range []string{"PolicyDocument", "KeyPolicy"} {
			if document, found := r.properties[property]; found {
				add(r.id, document)
			}
		}
		policies, _ := r.properties["Policies"].([]any)
		for _, p := range policies {
			add(r.id, p.(object)["PolicyDocument"])
		}
	}
	return out
}

// function returns a function's resource.
func (d deployment) function(t *testing.T, name string) resource {
	t.Helper()
	r, found := d.service.named("Lambda::Function", "FunctionName", d.cfg.name(name))
	require.True(t, found, "no function is named %s", name)
	return r
}

var assetKey = regexp.MustCompile(`[0-9a-f]{64}`)

// golden returns a template in its golden form: hashes of the code are masked.
func (t template) golden(tb testing.TB) string {
	tb.Helper()
	data, err := json.MarshalIndent(t.json, "", " ")
	require.NoError(tb, err)
	return assetKey.ReplaceAllString(string(data), "HASH") + "\n"
}
