package resources

import (
	"context"
	"fmt"
	"strings"

	"millrace/localstack/cloud/template"
)

// url describes the URL of a function.
func (m *maker) url(_ context.Context, p struct{ TargetFunctionArn, Qualifier, AuthType string }) (template.Attributes, error) {
	if p.AuthType != "NONE" {
		return template.Attributes{}, fmt.Errorf("the authentication type %q of a URL is not known here", p.AuthType)
	}
	function := m.functionName(p.TargetFunctionArn)
	if p.Qualifier != "" {
		m.invoked = append(m.invoked, function+":"+p.Qualifier)
	}
	address := fmt.Sprintf("https://%s.lambda-url.%s.on.aws", strings.ToLower(function), m.Region)
	m.out.URLs = append(m.out.URLs, URL{Address: address, Function: function})
	return template.Attributes{Ref: p.TargetFunctionArn, URL: address + "/"}, nil
}

type permissionProperties struct {
	Action, FunctionName, Principal string
	FunctionURLAuthType             string `json:"FunctionUrlAuthType"`
	InvokedViaFunctionURL           bool   `json:"InvokedViaFunctionUrl"`
}

// permission records what everybody may do at a function's URL. The permissions
// of AWS's services are not checked.
func (m *maker) permission(_ context.Context, p permissionProperties) (template.Attributes, error) {
	byURL := p.Action == "lambda:InvokeFunctionUrl" && p.FunctionURLAuthType == "NONE" ||
		p.Action == "lambda:InvokeFunction" && p.InvokedViaFunctionURL
	switch {
	case p.Principal == "*" && byURL:
		m.everybody[grant{m.functionName(p.FunctionName), p.Action}] = true
	case !strings.HasSuffix(p.Principal, ".amazonaws.com"):
		return template.Attributes{}, fmt.Errorf("%s for %s is not known here", p.Action, p.Principal)
	}
	return template.Attributes{}, nil
}
