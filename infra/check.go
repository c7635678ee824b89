package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"millrace/infra/preflight"
	"millrace/shared/account/identity"
)

// check runs the checks before a deployment, whose context is given as for the
// CDK: -c key=value. It writes sentences to out, and to found the context that
// was read of the account, in the same form. An error means that the deployment
// would fail. Whether the region exists is seen when the account is asked: the
// CDK's list of regions would take seconds to load.
func check(ctx context.Context, args []string, open func(ctx context.Context, region string) (preflight.Account, error), found, out io.Writer) error {
	values, err := contextOf(args)
	if err != nil {
		return err
	}
	cfg, err := readConfig(func(key string) string { return values[key] }, []string{values["region"], values["backupRegion"], values["recoveredFrom"]})
	if err := errors.Join(checkKeys(slices.Sorted(maps.Keys(values))), err); err != nil {
		return err
	}
	account, err := open(ctx, cfg.Region)
	if err != nil {
		return err
	}
	var backup *preflight.Backup
	if cfg.BackupRegion != "" {
		there, err := open(ctx, cfg.BackupRegion)
		if err != nil {
			return err
		}
		backup = &preflight.Backup{Region: cfg.BackupRegion, Account: there, Stack: cfg.name("recovery")}
	}
	report := preflight.Check(ctx, account, preflight.Wants{
		Region: cfg.Region, Tiers: cfg.Tiers, Issuer: cfg.Issuer, Backup: backup,
		Stacks: []string{cfg.name("data"), cfg.name("service"), cfg.name("operations")}, Data: cfg.name("data"), Keys: cfg.name("keys"), Service: cfg.name("service"), Reserves: cfg.reserves,
		Discover: func(ctx context.Context, issuer string) (identity.Discovery, error) {
			return identity.Discover(ctx, nil, issuer)
		},
	})
	for _, note := range report.Notes {
		fmt.Fprintln(out, "note:", note)
	}
	if len(report.Problems) > 0 {
		return fmt.Errorf("%s cannot be deployed to %s of account %s:\n- %s\nPREFLIGHT=off deploys without these checks",
			cfg.Tenant, cfg.Region, cmp.Or(report.Account, "(unknown)"), strings.Join(report.Problems, "\n- "))
	}
	if report.Concurrency > 0 {
		fmt.Fprintf(found, "-c concurrency=%d\n", report.Concurrency)
	}
	return nil
}

// contextOf reads -c key=value. Of a key that is there twice, the last counts.
func contextOf(args []string) (map[string]string, error) {
	values := map[string]string{}
	for i := 0; i < len(args); i += 2 {
		if args[i] != "-c" && args[i] != "--context" || i+1 == len(args) {
			return nil, fmt.Errorf("%q is not -c key=value", args[i])
		}
		key, value, ok := strings.Cut(args[i+1], "=")
		if !ok {
			return nil, fmt.Errorf("%q is not key=value", args[i+1])
		}
		values[key] = value
	}
	return values, nil
}
