// Command infra is the CDK app. It derives a deployment of the service, for one
// tenant in one region, from the catalog of functions. README.md describes
// deployment and operation; config.go lists the settings.
//
// There are three stacks, and two more with a backup in another region. Data
// outlives every deployment: the table, the bucket, the queues, the bus, the key,
// the secrets. Service is the code: the functions, their roles, and the API.
// Operations monitors both: alarms and the dashboard.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/regioninfo"
	"github.com/aws/jsii-runtime-go"

	"millrace/functions/catalog"
	"millrace/infra/preflight"
	"millrace/shared/web/fn"
)

func main() {
	do := run
	if len(os.Args) > 1 && os.Args[1] == "count" { // count TEMPLATE...
		do = func() error { return count(os.Stdout, os.Args[2:]) }
	}
	if len(os.Args) > 1 && os.Args[1] == "iam" { // iam TEMPLATE [OLDER]
		do = func() error { return printPermissions(os.Stdout, os.Args[2:]) }
	}
	if len(os.Args) > 1 && os.Args[1] == "indexes" {
		do = func() error { return indexes(context.Background(), os.Stderr, awsIndexes, os.Args[2:]) }
	}
	if len(os.Args) > 1 && os.Args[1] == "preflight" { // preflight -c key=value...
		do = runCheck
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "infra:", err)
		os.Exit(1)
	}
}

func run() error {
	defer jsii.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	app := awscdk.NewApp(nil)
	cfg, err := readConfig(fromContext(app), regions())
	if err := errors.Join(checkKeys(contextNames(app)), err); err != nil {
		return err
	}
	code, err := buildCode(ctx)
	if err != nil {
		return err
	}
	defer code.remove()
	if _, err := newStacks(app, cfg, functions(cfg), code); err != nil {
		return err
	}
	app.Synth(nil)
	return nil
}

// functions returns the functions of a deployment.
func functions(cfg Config) []fn.Spec {
	if !cfg.SyntheticRun {
		return catalog.All()
	}
	return catalog.With(catalog.Optional()...)
}

func runCheck() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return check(ctx, os.Args[2:], preflight.Open, os.Stdout, os.Stderr)
}

// fromContext returns a lookup of context values. It ignores values other than
// strings.
func fromContext(app awscdk.App) func(string) string {
	return func(key string) string {
		text, _ := app.Node().TryGetContext(jsii.String(key)).(string)
		return text
	}
}

// contextNames returns the keys of all context values.
func contextNames(app awscdk.App) []string {
	all, _ := app.Node().GetAllContext(nil).(map[string]any)
	return slices.Sorted(maps.Keys(all))
}

// regions returns the regions that the CDK library knows.
func regions() []string {
	var names []string
	for _, r := range *regioninfo.RegionInfo_Regions() {
		names = append(names, *r.Name())
	}
	slices.Sort(names)
	return names
}

// stacks are the stacks of a deployment.
type stacks struct {
	data, service, operations awscdk.Stack
	keys, recovery            awscdk.Stack // nil without a backup in another region
}

// newStacks adds the stacks of a deployment to the app.
func newStacks(app awscdk.App, cfg Config, specs []fn.Spec, code code) (stacks, error) {
	routes, err := newRoutes(specs)
	if err != nil {
		return stacks{}, err
	}
	if len(specs) == 0 {
		return stacks{}, errors.New("the catalog is empty")
	}
	if cfg.RecoveredFrom != "" && !objectTrigger(specs).Users {
		return stacks{}, errors.New("the bucket of a recovery stack does not notify functions of its objects")
	}
	s := stacks{
		data:       newStack(app, cfg, "data", "What outlives deployments: table, bucket, queues, bus, key, secrets."),
		service:    newStack(app, cfg, "service", "The code: functions, their roles, and the API."),
		operations: newStack(app, cfg, "operations", "Alarms and the dashboard."),
	}
	addData(s.data, cfg, specs)
	addService(s.service, cfg, specs, routes, code)
	addOperations(s.operations, cfg, specs)
	s.service.AddDependency(s.data, jsii.String("the service uses the data"))
	s.operations.AddDependency(s.service, jsii.String("alarms watch the service"))
	if cfg.BackupRegion == "" {
		return s, nil
	}
	s.keys = newStack(app, cfg, "keys", "The keys, which have replicas in "+cfg.BackupRegion+".")
	addKeys(s.keys, cfg)
	there := cfg
	there.Region = cfg.BackupRegion
	s.recovery = newStack(app, there, "recovery", "What a deployment here begins with when "+cfg.Region+" is lost: keys, objects, backups.")
	addRecovery(s.recovery, there)
	s.recovery.AddDependency(s.keys, jsii.String("it has replicas of the keys"))
	s.data.AddDependency(s.recovery, jsii.String("objects and backups are copied there"))
	return s, nil
}

func newStack(app awscdk.App, cfg Config, part, description string) awscdk.Stack {
	stack := awscdk.NewStack(app, jsii.String(cfg.name(part)), &awscdk.StackProps{
		Description:           jsii.String(fmt.Sprintf("Millrace for %s in %s (%s): %s", cfg.Tenant, cfg.Region, cfg.Stage, description)),
		Env:                   &awscdk.Environment{Region: jsii.String(cfg.Region)},
		TerminationProtection: jsii.Bool(cfg.protected() && part != "service" && part != "operations"), // those can be made again without loss
		AnalyticsReporting:    jsii.Bool(false),
		// The CLI itself checks the version of the bootstrap stack.
		Synthesizer: awscdk.NewDefaultStackSynthesizer(&awscdk.DefaultStackSynthesizerProps{GenerateBootstrapVersionRule: jsii.Bool(false)}),
	})
	for key, value := range map[string]string{"millrace:tenant": cfg.Tenant, "millrace:stage": cfg.Stage, "millrace:stack": part} {
		awscdk.Tags_Of(stack).Add(jsii.String(key), jsii.String(value), &awscdk.TagProps{
			ExcludeResourceTypes: jsii.Strings("AWS::CloudWatch::Dashboard"), // does not support tags
		})
	}
	return stack
}
