// Package awsenv configures AWS clients from the environment of a Lambda
// function. The SDK's own package config also looks for credentials where a
// function has none: in profiles, single sign-on, containers and machines. The
// clients for that are 1.5 MB of a program, and their packages are initialized
// at each start.
package awsenv

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go/logging"
)

// The SDK's variables.
const (
	envRegion        = "AWS_REGION"
	envDefaultRegion = "AWS_DEFAULT_REGION"
	envAccessKey     = "AWS_ACCESS_KEY_ID"
	envSecretKey     = "AWS_SECRET_ACCESS_KEY"
	envSessionToken  = "AWS_SESSION_TOKEN"
	envAccount       = "AWS_ACCOUNT_ID"
	envEndpoint      = "AWS_ENDPOINT_URL" // of one service with its id as suffix: AWS_ENDPOINT_URL_DYNAMODB
)

// How long a connection may take, and a response to begin. The SDK sets no limit
// to the second, so a connection that was lost without a trace, as while Lambda
// had frozen the process, would use up the function's whole time. No response of
// AWS takes longer to begin than that to a poll of SQS, 20 s.
const (
	dialTimeout     = 5 * time.Second
	responseTimeout = 25 * time.Second
)

// ErrNoCredentials is the error of a request with the credentials of an
// environment that has none.
var ErrNoCredentials = errors.New(envAccessKey + " and " + envSecretKey + " are not set")

// Load returns region, credentials and endpoints of the environment, a client
// that does not wait forever, and the SDK's defaults for everything else. It does
// not fail.
func Load(context.Context) (aws.Config, error) {
	out := aws.Config{
		Region:      cmp.Or(os.Getenv(envRegion), os.Getenv(envDefaultRegion)),
		Credentials: aws.CredentialsProviderFunc(retrieve), ConfigSources: []any{endpoints{}},
		HTTPClient: awshttp.NewBuildableClient().
			WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialTimeout }).
			WithTransportOptions(func(tr *http.Transport) { tr.ResponseHeaderTimeout = responseTimeout }),
		Logger:                     logging.NewStandardLogger(os.Stderr),
		AccountIDEndpointMode:      aws.AccountIDEndpointModePreferred,
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenSupported,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenSupported,
	}
	if url := os.Getenv(envEndpoint); url != "" {
		out.BaseEndpoint = &url
	}
	return out, nil
}

// retrieve returns the environment's credentials. They are valid for as long as
// Lambda keeps the process.
func retrieve(context.Context) (aws.Credentials, error) {
	out := aws.Credentials{
		AccessKeyID: os.Getenv(envAccessKey), SecretAccessKey: os.Getenv(envSecretKey), SessionToken: os.Getenv(envSessionToken),
		AccountID: os.Getenv(envAccount), Source: "environment",
	}
	if !out.HasKeys() {
		return aws.Credentials{}, ErrNoCredentials
	}
	return out, nil
}

// endpoints is what clients ask for the endpoint of their service.
type endpoints struct{}

// GetServiceBaseEndpoint returns the URL that replaces a service's endpoint. id is
// the SDK's, "Secrets Manager".
func (endpoints) GetServiceBaseEndpoint(_ context.Context, id string) (url string, found bool, err error) {
	url = os.Getenv(envEndpoint + "_" + strings.ToUpper(strings.ReplaceAll(id, " ", "_")))
	return url, url != "", nil
}
