package preflight

import (
	"context"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
)

// cloud is the account of the credentials in the environment.
type cloud struct {
	lambda *lambda.Client
	stacks *cloudformation.Client
	sts    *sts.Client
}

// Open returns the account of the credentials that AWS's tools find in the
// environment. It makes no request to the account.
func Open(ctx context.Context, region string) (Account, error) {
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(region))
	if err != nil {
		return nil, err
	}
	return cloud{lambda.NewFromConfig(cfg), cloudformation.NewFromConfig(cfg), sts.NewFromConfig(cfg)}, nil
}

func (c cloud) ID(ctx context.Context) (string, error) {
	out, err := c.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", err
	}
	return aws.ToString(out.Account), nil
}

func (c cloud) Concurrency(ctx context.Context) (quota, unreserved int, err error) {
	out, err := c.lambda.GetAccountSettings(ctx, &lambda.GetAccountSettingsInput{})
	if err != nil {
		return 0, 0, err
	}
	if out.AccountLimit == nil {
		return 0, 0, errors.New("the answer has no AccountLimit")
	}
	return int(out.AccountLimit.ConcurrentExecutions), int(aws.ToInt32(out.AccountLimit.UnreservedConcurrentExecutions)), nil
}

func (c cloud) LargestFunction(ctx context.Context) (int, error) {
	largest := 0
	for pages := lambda.NewListFunctionsPaginator(c.lambda, &lambda.ListFunctionsInput{}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return 0, err
		}
		for _, f := range page.Functions {
			largest = max(largest, int(aws.ToInt32(f.MemorySize)))
		}
	}
	return largest, nil
}

func (c cloud) Stack(ctx context.Context, name string) (Stack, error) {
	out, err := c.stacks.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &name})
	if e, ok := errors.AsType[smithy.APIError](err); ok && e.ErrorCode() == "ValidationError" && strings.Contains(e.ErrorMessage(), "does not exist") {
		return Stack{}, nil
	}
	if err != nil || len(out.Stacks) == 0 {
		return Stack{}, err
	}
	return Stack{Status: string(out.Stacks[0].StackStatus), Protected: aws.ToBool(out.Stacks[0].EnableTerminationProtection)}, nil
}

func (c cloud) Unprotect(ctx context.Context, name string) error {
	_, err := c.stacks.UpdateTerminationProtection(ctx, &cloudformation.UpdateTerminationProtectionInput{
		StackName: &name, EnableTerminationProtection: aws.Bool(false),
	})
	return err
}
