package kms_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/emulators"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/vault"
	"millrace/shared/platform/vault/kms"
	"millrace/shared/platform/vault/vaulttest"
)

// load returns the emulator's configuration.
func load(base aws.Config) func(context.Context) (aws.Config, error) {
	return func(context.Context) (aws.Config, error) { return base, nil }
}

func newKey(t *testing.T, base aws.Config) string {
	t.Helper()
	out, err := awskms.NewFromConfig(base).CreateKey(t.Context(), &awskms.CreateKeyInput{})
	require.NoError(t, err)
	return *out.KeyMetadata.Arn
}

func open(t *testing.T, cfg kms.Config) *kms.Vault {
	t.Helper()
	v, err := kms.New(cfg)
	require.NoError(t, err)
	return v
}

// keys are KMS keys, the primary last.
type keys struct {
	base aws.Config
	arns []string
}

func (k *keys) Open(t *testing.T) vault.Vault {
	last := len(k.arns) - 1
	return open(t, kms.Config{Key: k.arns[last], Retired: k.arns[:last], AWS: load(k.base)})
}

func (k *keys) Rotate(t *testing.T) { k.arns = append(k.arns, newKey(t, k.base)) }

func TestConformance(t *testing.T) {
	t.Parallel()
	base := emulators.KMS(t).Config()
	vaulttest.Exercise(t, func(t *testing.T) vaulttest.Keys {
		return &keys{base: base, arns: []string{newKey(t, base)}}
	})
}

// proxy counts KMS calls and records their content.
type proxy struct {
	base aws.Config

	mu    sync.Mutex
	calls []string // e.g. "Encrypt"
	texts []string
	fail  func(operation string) (status int, body string) // status 0 forwards the call
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	at := emulators.KMS(t)
	p := &proxy{base: at.Config()}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		p.mu.Lock()
		p.calls, p.texts = append(p.calls, operation), append(p.texts, string(body))
		fail := p.fail
		p.mu.Unlock()
		if fail != nil {
			if status, answer := fail(operation); status != 0 {
				w.Header().Set("Content-Type", "application/x-amz-json-1.1")
				w.WriteHeader(status)
				fmt.Fprint(w, answer)
				return
			}
		}
		req, err := http.NewRequestWithContext(r.Context(), r.Method, at.URL, strings.NewReader(string(body)))
		assert.NoError(t, err)
		req.Header = r.Header.Clone()
		res, err := http.DefaultClient.Do(req)
		if !assert.NoError(t, err) {
			return
		}
		defer res.Body.Close()
		w.Header().Set("Content-Type", res.Header.Get("Content-Type"))
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body)
	}))
	t.Cleanup(web.Close)
	p.base.BaseEndpoint = &web.URL
	return p
}

func (p *proxy) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

func (p *proxy) failing(fail func(operation string) (int, string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = fail
}

// TestDataKeysAreCachedForLifetime checks that KMS is called once for a
// workspace, and again when a key's lifetime is over.
func TestDataKeysAreCachedForLifetime(t *testing.T) {
	t.Parallel()
	p := newProxy(t)
	arn := newKey(t, p.base)
	now := time.Unix(1700000000, 0)
	v := open(t, kms.Config{Key: arn, AWS: load(p.base), Lifetime: time.Minute, Clock: clock.Func(func() time.Time { return now })})
	var sealed []vault.Sealed
	for i := range 10 {
		s, err := v.Seal(t.Context(), "org", fmt.Sprint(i), []byte("value"))
		require.NoError(t, err)
		sealed = append(sealed, s)
		_, err = v.Open(t.Context(), "org", fmt.Sprint(i), s)
		require.NoError(t, err)
	}
	require.Equal(t, []string{"CreateKey", "Encrypt"}, p.seen())

	// Another process unwraps it once, but not for another workspace.
	other := open(t, kms.Config{Key: arn, AWS: load(p.base), Lifetime: time.Minute, Clock: clock.Func(func() time.Time { return now })})
	for i, s := range sealed {
		_, err := other.Open(t.Context(), "org", fmt.Sprint(i), s)
		require.NoError(t, err)
	}
	require.Equal(t, []string{"Decrypt"}, p.seen()[2:])
	_, err := other.Open(t.Context(), "other", "0", sealed[0])
	require.ErrorIs(t, err, vault.ErrRejected)

	now = now.Add(time.Minute)
	_, err = v.Open(t.Context(), "org", "0", sealed[0])
	require.NoError(t, err)
	_, err = v.Seal(t.Context(), "org", "0", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"Decrypt", "Decrypt", "Decrypt", "Encrypt"}, p.seen()[2:])

	// The workspace is in the encryption context, where policies can match it.
	var in struct{ EncryptionContext map[string]string }
	require.NoError(t, json.Unmarshal([]byte(p.texts[1]), &in))
	assert.Equal(t, map[string]string{"associatedData": hex.EncodeToString(kms.Context("org"))}, in.EncryptionContext)
	for _, text := range p.texts {
		assert.NotContains(t, text, "dmFsdWU", "the value itself stays here")
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status   int
		body     string
		want     error
		attempts int
	}{
		{400, `{"__type":"AccessDeniedException","message":"not allowed"}`, vault.ErrUnavailable, 1},
		{400, `{"__type":"DisabledException","message":"disabled"}`, vault.ErrUnavailable, 1},
		{400, `{"__type":"IncorrectKeyException"}`, vault.ErrRejected, 1},
		{400, `{"__type":"InvalidCiphertextException"}`, vault.ErrRejected, 1},
		{500, `{"__type":"KMSInternalException"}`, vault.ErrUnavailable, 4},
	} {
		p := newProxy(t)
		cfg := kms.Config{Key: newKey(t, p.base), AWS: load(p.base)}
		sealed, err := open(t, cfg).Seal(t.Context(), "org", "name", []byte("value"))
		require.NoError(t, err)
		before := len(p.seen())
		v := kms.WithBackoff(open(t, cfg), time.Millisecond)
		p.failing(func(string) (int, string) { return test.status, test.body })
		_, err = v.Open(t.Context(), "org", "name", sealed)
		require.ErrorIs(t, err, test.want, test.body)
		assert.Len(t, p.seen(), before+test.attempts)
		p.failing(nil)
		_, err = v.Open(t.Context(), "org", "name", sealed)
		require.NoError(t, err, "a failure is not kept")
	}
}

func TestUnknownKeys(t *testing.T) {
	t.Parallel()
	base := emulators.KMS(t).Config()
	sealed, err := open(t, kms.Config{Key: newKey(t, base), AWS: load(base)}).Seal(t.Context(), "org", "name", nil)
	require.NoError(t, err)
	_, err = open(t, kms.Config{Key: newKey(t, base), AWS: load(base)}).Open(t.Context(), "org", "name", sealed)
	require.ErrorIs(t, err, vault.ErrUnavailable, "it may be configured yet")

	for _, cfg := range []kms.Config{{}, {Key: "arn:k", Retired: []string{""}}} {
		_, err := kms.New(cfg)
		require.ErrorIs(t, err, vault.ErrArgument)
	}
	broken := kms.Config{Key: "arn:k", AWS: func(context.Context) (aws.Config, error) { return aws.Config{}, assert.AnError }}
	_, err = open(t, broken).Seal(t.Context(), "org", "name", nil)
	require.ErrorIs(t, err, vault.ErrUnavailable)
	require.ErrorIs(t, err, assert.AnError)
}

// regions answers Encrypt and Decrypt as KMS does for the replicas of multi-Region
// keys: each region takes requests for its own ARNs only, and unwraps what any
// region has wrapped under the same key ID. (moto cuts the IDs of such keys.)
func regions(t *testing.T) (config func(region string) aws.Config) {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			KeyID                     string `json:"KeyId"`
			Plaintext, CiphertextBlob []byte
			EncryptionContext         map[string]string
		}
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&in))
		arn := strings.Split(in.KeyID, ":")
		scope := strings.Split(r.Header.Get("Authorization"), "/")
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		if len(arn) != 6 || arn[3] != scope[2] {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"__type": "NotFoundException", "message": "not a key of this region"}`)
			return
		}
		prefix := []byte(arn[5] + fmt.Sprint(in.EncryptionContext))
		out := map[string]any{"KeyId": in.KeyID}
		if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".Encrypt") {
			out["CiphertextBlob"] = append(prefix, in.Plaintext...)
		} else {
			plain, ours := bytes.CutPrefix(in.CiphertextBlob, prefix)
			if !ours {
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprint(w, `{"__type": "IncorrectKeyException", "message": "another key"}`)
				return
			}
			out["Plaintext"] = plain
		}
		assert.NoError(t, json.NewEncoder(w).Encode(out))
	}))
	t.Cleanup(web.Close)
	return func(region string) aws.Config {
		return aws.Config{Region: region, BaseEndpoint: &web.URL, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")}
	}
}

// TestReplicaOpensInAnotherRegion seals under a multi-Region key, and opens under
// its replica in another region, as after the loss of the first one.
func TestReplicaOpensInAnotherRegion(t *testing.T) {
	t.Parallel()
	config := regions(t)
	in := func(region, id string) *kms.Vault {
		return open(t, kms.Config{Key: "arn:aws:kms:" + region + ":123456789012:key/" + id, AWS: load(config(region))})
	}
	here, there := in("eu-west-1", "mrk-1"), in("eu-central-1", "mrk-1")
	for name, c := range map[string]struct {
		seals, opens *kms.Vault
		err          error
	}{
		"lost region":               {here, there, nil},
		"back again":                {there, here, nil},
		"another multi-Region key":  {here, in("eu-central-1", "mrk-2"), vault.ErrUnavailable},
		"a key of one region":       {in("eu-west-1", "1"), in("eu-central-1", "1"), vault.ErrUnavailable},
		"a key of another key's ID": {here, in("eu-central-1", "1"), vault.ErrUnavailable},
	} {
		sealed, err := c.seals.Seal(t.Context(), "org", "name", []byte(name))
		require.NoError(t, err, name)
		value, err := c.opens.Open(t.Context(), "org", "name", sealed)
		if c.err != nil {
			require.ErrorIs(t, err, c.err, name)
			require.ErrorContains(t, err, "a KMS key that is not configured", name)
			continue
		}
		require.NoError(t, err, name)
		assert.Equal(t, name, string(value))
	}
}
