package telemetry

import (
	"regexp"
	"strings"
	"sync"
)

// The service never logs a credential on purpose. This is the last line of
// defence: a driver's error may quote the URL or header it failed on.
var credentials = []credential{
	look("svc_", `\bsvc_[A-Za-z0-9_-]{12,}`, "svc_***"),
	look("mat_", `\bmat_[A-Za-z0-9_-]{12,}`, "mat_***"),
	// Signed tokens: a JSON object in base64, then at least a signature.
	look("eyJ", `\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*)?`, "***"),
	look("earer ", `\b([Bb]earer +)[A-Za-z0-9._~+/=-]{8,}`, "${1}***"),
	look("-Amz-", `\b(X-Amz-(?:Signature|Credential|Security-Token)=)[^&\s"'<>]+`, "${1}***"),
	look("@", `(://)[^/@\s"']+@`, "${1}***@"),
}

// credential describes a kind of credential in a text.
type credential struct {
	sign    string                // a text without it cannot match
	pattern func() *regexp.Regexp // compiled on first use, because functions start often
	with    string
}

func look(sign, pattern, with string) credential {
	return credential{sign, sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) }), with}
}

// redact removes credentials from a text.
func redact(text string) string {
	for _, c := range credentials {
		if strings.Contains(text, c.sign) {
			text = c.pattern().ReplaceAllString(text, c.with)
		}
	}
	return text
}
