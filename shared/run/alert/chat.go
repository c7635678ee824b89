package alert

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json"
)

// chat sends a message as Slack's incoming webhooks take it.
func (s *Sender) chat(ctx context.Context, config Config, m *Message) Result {
	body, err := json.Marshal(map[string]string{"text": m.chatText()})
	if err != nil {
		return failed(false, "the message cannot be written as JSON")
	}
	return s.post(ctx, config, config.WebhookURL, body, nil)
}

// escaped are the characters with which Slack's markup, mentions and links begin
// and end.
var escaped = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func (m *Message) chatText() string {
	var b strings.Builder
	b.WriteString("*" + escaped.Replace(m.title()) + "*")
	for _, f := range m.facts() {
		b.WriteString("\n" + f.name + ": " + escaped.Replace(f.text))
	}
	if m.Run.URL != nil {
		b.WriteString("\n<" + escaped.Replace(*m.Run.URL) + "|Open the run>")
	}
	return b.String()
}
