package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"
	"github.com/aws/jsii-runtime-go"

	"millrace/shared/platform/telemetry"
	"millrace/shared/run/engine"
	"millrace/shared/web/fn"
)

func apiKeyID(spec fn.Spec) string { return camel(spec.Name) + "ApiKey" }

// addAPIKey adds the secret of the API key that an operator stores for a function.
// It has no value until then, and is made again with its stack: nobody else has the
// key, which is replaced as easily.
func addAPIKey(stack awscdk.Stack, cfg Config, spec fn.Spec) {
	if !spec.Needs.APIKey {
		return
	}
	secret := awssecretsmanager.NewCfnSecret(stack, jsii.String(apiKeyID(spec)), &awssecretsmanager.CfnSecretProps{
		Name: jsii.String(cfg.name(spec.Name + "-key")), KmsKeyId: cfg.imported(keyARN),
		Description: jsii.String("The API key of " + cfg.name(spec.Name) + ", stored by an operator."),
	})
	secret.ApplyRemovalPolicy(awscdk.RemovalPolicy_DESTROY, nil)
}

// syntheticAlarms returns the alarm of the synthetic run.
func syntheticAlarms(cfg Config) []alarm {
	if !cfg.SyntheticRun {
		return nil
	}
	return []alarm{{
		id: "SyntheticRunFails", doc: "For five minutes no synthetic run succeeded: users' runs do not, either, or its key is missing.",
		metric: metric{cfg.namespace(), telemetry.SyntheticRuns.String(), "Sum", [][2]string{{"Outcome", string(engine.Succeeded)}}}, threshold: 1, missing: true,
	}}
}
