package gateway

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/aws/aws-lambda-go/events"
)

// streamType is the content type of a streamed response.
const streamType = "application/vnd.awslambda.http-integration-response"

// whole sends a function's buffered proxy response.
func whole(w http.ResponseWriter, answer io.Reader) error {
	var res events.APIGatewayProxyResponse
	if err := json.NewDecoder(answer).Decode(&res); err != nil {
		return fmt.Errorf("proxy response: %w", err)
	}
	body := []byte(res.Body)
	if res.IsBase64Encoded {
		var err error
		if body, err = base64.StdEncoding.DecodeString(res.Body); err != nil {
			return err
		}
	}
	head(w, res.StatusCode, res.MultiValueHeaders)
	_, _ = w.Write(body) // the client may have disconnected
	return nil
}

// delimiter separates the prelude of a streamed response from its body.
var delimiter = make([]byte, 8)

// stream forwards a streamed response as it arrives.
func stream(w http.ResponseWriter, answer io.Reader) error {
	in := bufio.NewReader(answer)
	var prelude []byte
	for !bytes.HasSuffix(prelude, delimiter) {
		b, err := in.ReadByte()
		if err != nil {
			return fmt.Errorf("prelude %q: %w", prelude, err)
		}
		prelude = append(prelude, b)
	}
	var res events.APIGatewayProxyResponse
	if err := json.Unmarshal(bytes.TrimSuffix(prelude, delimiter), &res); err != nil {
		return fmt.Errorf("prelude: %w", err)
	}
	head(w, res.StatusCode, res.MultiValueHeaders)
	buf := make([]byte, 32<<10)
	for {
		n, err := in.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			_ = http.NewResponseController(w).Flush() // the server's writer supports it
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func head(w http.ResponseWriter, status int, header map[string][]string) {
	for name, values := range header {
		w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	w.WriteHeader(status)
}
