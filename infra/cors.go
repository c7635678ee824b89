package main

import (
	"maps"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"

	"millrace/shared/web/cors"
)

// bucketCORS lets pages upload and download by presigned URLs; nil without
// origins.
func bucketCORS(cfg Config) any {
	if len(cfg.Origins) == 0 {
		return nil
	}
	return &awss3.CfnBucket_CorsConfigurationProperty{CorsRules: []any{&awss3.CfnBucket_CorsRuleProperty{
		AllowedOrigins: jsii.Strings(cfg.Origins...), AllowedMethods: jsii.Strings("GET", "HEAD", "PUT"), AllowedHeaders: jsii.Strings("*"),
		ExposedHeaders: jsii.Strings("ETag"), MaxAge: jsii.Number(cors.MaxAgeSeconds),
	}}}
}

// responseHeaders returns the headers of the gateway's own responses. Pages must
// be able to read these, too, or every throttle looks like a broken network.
// The gateway cannot choose among origins: with more than one it repeats the
// request's, which shows any page nothing but the gateway's own error.
func responseHeaders(cfg Config) map[string]any {
	out := map[string]any{"X-Request-Id": "context.requestId"}
	switch len(cfg.Origins) {
	case 0:
	case 1:
		out["Access-Control-Allow-Origin"] = "'" + cfg.Origins[0] + "'"
	default:
		out["Access-Control-Allow-Origin"] = "method.request.header.Origin"
	}
	if len(cfg.Origins) > 0 {
		out["Access-Control-Expose-Headers"], out["Vary"] = "'"+strings.Join(cors.Exposed, ", ")+"'", "'Origin'"
	}
	named := map[string]any{}
	for name, value := range maps.All(out) {
		named["gatewayresponse.header."+name] = value
	}
	return named
}
