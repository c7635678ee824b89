package cloud

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"strings"

	python "millrace/functions/sandbox"
	"millrace/localstack/cloud/fleet"
	"millrace/localstack/cloud/resources"
	"millrace/localstack/embedded/signin"
)

// RoleSecret is a credential in every function's environment, as on Lambda. No
// task may see it.
const RoleSecret = "secret-of-the-functions-role"

// Variables that this machine sets, whatever the template says.
const (
	envVersion     = "MILLRACE_VERSION"
	envLogLevel    = "MILLRACE_LOG_LEVEL"
	envIssuer      = "MILLRACE_SIGNIN_ISSUER"
	envAudience    = "MILLRACE_SIGNIN_AUDIENCE"
	envJWKS        = "MILLRACE_SIGNIN_JWKS_URL"
	envSuperAdmins = "MILLRACE_SUPER_ADMINS"
	envAllowRanges = "MILLRACE_ALLOW_RANGES"
)

// functions returns the template's functions with programs of this machine.
func (c *Cloud) functions() (_ []fleet.Function, err error) {
	if _, err := os.Stat(c.cfg.Bootstrap); err != nil {
		return nil, fmt.Errorf("cloud: the program of the functions: %w", err)
	}
	var out []fleet.Function
	for _, f := range c.Deployment.Functions {
		function := fleet.Function{Name: f.Name, ARN: f.ARN, Timeout: f.Timeout, Memory: f.MemoryMB, Tenants: f.Tenants}
		switch {
		case strings.HasPrefix(f.Runtime, "provided"):
			function.Command = []string{c.cfg.Bootstrap}
			function.Env = c.environment(f, c.services(f))
		case strings.HasPrefix(f.Runtime, "python"):
			function.Command, function.Code, err = fleet.Python(cmp.Or(c.cfg.Python, "python3"), python.Python())
			if err != nil {
				return nil, err
			}
			function.Env = c.template(f, nil)
			maps.Copy(function.Env, map[string]string{
				"PATH": os.Getenv("PATH"), "AWS_ACCESS_KEY_ID": "role", "AWS_SECRET_ACCESS_KEY": RoleSecret, "AWS_SESSION_TOKEN": RoleSecret,
			})
		default:
			return nil, fmt.Errorf("cloud: %s: the runtime %q is not known here", f.Name, f.Runtime)
		}
		function.Env["_HANDLER"] = f.Handler
		out = append(out, function)
	}
	return out, nil
}

// services returns the variables by which a function's SDK finds the emulated
// services, behind the gate, with credentials of the function's role.
func (c *Cloud) services(f resources.Function) map[string]string {
	gate := "http://" + c.gate.Addr
	return map[string]string{
		"AWS_REGION": c.cfg.Services.SQS.Config().Region, "AWS_ACCESS_KEY_ID": accessKey(f), "AWS_SECRET_ACCESS_KEY": RoleSecret,
		"AWS_ENDPOINT_URL": gate,
	}
}

// template returns variables and, with the local addresses of the API and of
// functions' URLs, those of a function's template.
func (c *Cloud) template(f resources.Function, more map[string]string) map[string]string {
	env := map[string]string{}
	maps.Copy(env, more)
	deployed := c.Deployment.API.Address(c.cfg.Services.SQS.Config().Region)
	for name, value := range f.Environment {
		env[name] = strings.ReplaceAll(value, deployed, c.URL)
		for address, local := range c.local {
			env[name] = strings.ReplaceAll(env[name], address, local)
		}
	}
	return env
}

// environment returns the template's environment of a function, with the local
// address of the API and the local sign-in.
func (c *Cloud) environment(f resources.Function, services map[string]string) map[string]string {
	env := c.template(f, services)
	set := func(name, value string) {
		if value != "" {
			env[name] = value
		}
	}
	set(envVersion, c.cfg.Version)
	set(envLogLevel, c.cfg.LogLevel)
	set(envSuperAdmins, strings.Join(c.cfg.SuperAdmins, ","))
	set(envAllowRanges, strings.Join(c.cfg.AllowRanges, ","))
	maps.Copy(env, map[string]string{envIssuer: c.URL, envAudience: signin.Audience, envJWKS: c.URL + signin.KeysPath})
	return env
}
