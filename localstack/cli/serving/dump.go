package serving

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/embedded/datadir"
	"millrace/localstack/embedded/pebblequeue"
	"millrace/localstack/embedded/pebbletable"
	"millrace/localstack/embedded/store"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
)

func dumpCommand() *cobra.Command {
	var data string
	c := &cobra.Command{
		Use:   "dump",
		Short: "Print table and queues of a data directory, one JSON object per line; no server may be running on it",
		Long: "Prints each item of the table as {\"item\": …} and each message of the queues as {\"message\": …}.\n" +
			"Nothing in the directory is changed.",
		Args: command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if err := datadir.Check(data); err != nil {
				return err
			}
			db, err := store.Open(datadir.Store(data), store.Options{ReadOnly: true, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				return fmt.Errorf("dump: %w", err)
			}
			out := bufio.NewWriter(c.OutOrStdout())
			defer func() { err = errors.Join(err, out.Flush(), db.Close()) }()
			var damage error
			damaged := func(err error) { damage = errors.Join(damage, err) }
			print := json.NewEncoder(out)
			print.SetEscapeHTML(false)
			if err := pebbletable.Dump(c.Context(), db, func(item table.Item) error {
				return print.Encode(map[string]any{"item": plainItem(item)})
			}, func(pebbletable.Entry) error { return nil }, damaged); err != nil {
				return err
			}
			if err := pebblequeue.Dump(c.Context(), db, func(m pebblequeue.Kept) error {
				return print.Encode(map[string]any{"message": map[string]any{
					"queue": m.Queue, "group": m.Group, "sent": clock.Format(m.Sent), "visible": clock.Format(m.Visible),
					"receives": m.Receives, "body": json.RawMessage(m.Body),
				}})
			}, damaged); err != nil {
				return err
			}
			return damage
		},
	}
	c.Flags().StringVar(&data, "data", defaultData, "data directory")
	return c
}

func plainItem(item table.Item) map[string]any {
	out := make(map[string]any, len(item))
	for name, v := range item {
		out[name] = plain(v)
	}
	return out
}

// plain converts a value to JSON: exact numbers, bytes in base64, sets as
// lists.
func plain(v table.Value) any {
	switch v.Kind() {
	case table.Number:
		return json.Number(v.Str())
	case table.Binary:
		return v.Bytes()
	case table.Bool:
		return v.Bool()
	case table.Null:
		return nil
	case table.ListKind:
		out := make([]any, v.Len())
		for i, m := range v.List() {
			out[i] = plain(m)
		}
		return out
	case table.MapKind:
		return plainItem(v.Map())
	case table.StringSet:
		return v.Members()
	case table.NumberSet:
		out := make([]json.Number, v.Len())
		for i, m := range v.Members() {
			out[i] = json.Number(m)
		}
		return out
	}
	return v.Str()
}
