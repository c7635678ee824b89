package serving

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/client"
	"millrace/localstack/embedded/server"
	"millrace/localstack/embedded/signin"
)

func backupCommand() *cobra.Command {
	var data string
	c := &cobra.Command{
		Use:   "backup TO",
		Short: "Copy the data directory of a running server to a new directory",
		Long: "Copies table, queues, objects and keys of the running server to TO, which must not exist or be empty.\n" +
			"A server started on the copy makes nothing fall due until it is started with --adopt.",
		Args: command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			to, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			api, err := operatorClient(data)
			if err != nil {
				return err
			}
			var made server.BackupResponse
			if err := api.Do(c.Context(), http.MethodPost, server.BackupPath, server.BackupRequest{Directory: to}, &made); err != nil {
				return fmt.Errorf("backup: %w", err)
			}
			fmt.Fprintf(c.OutOrStdout(), "%s is a backup of %s\n", made.Directory, made.At.Local().Format("2006-01-02 15:04:05"))
			return nil
		},
	}
	c.Flags().StringVar(&data, "data", defaultData, "data directory of the server")
	return c
}

// operatorClient returns a client of the server on a data directory with the
// operator's credential.
func operatorClient(data string) (*client.Client, error) {
	var credentials signin.Credentials
	file, err := os.ReadFile(filepath.Join(data, signin.CredentialsFile))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(file, &credentials); err != nil {
		return nil, fmt.Errorf("%s: %w", signin.CredentialsFile, err)
	}
	return &client.Client{BaseURL: credentials.BaseURL, Token: credentials.LocalSecret}, nil
}
