package manual

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"millrace/localstack/cli"
)

var commandLine = []table{
	{"common flags", commonFlags},
	{"commands", commands},
	{"exit codes", exitCodes},
}

// common are the flags of all commands that speak to a server.
var common = []string{"url", "api-key", "context", "json"}

func commonFlags(string) (string, error) {
	c, _, err := cli.Command("").Find([]string{"runs"})
	if err != nil {
		return "", err
	}
	g := newGrid("flag", "")
	for _, name := range common {
		f := c.Flag(name)
		if f == nil {
			return "", fmt.Errorf("%s has no flag --%s", c.CommandPath(), name)
		}
		g.row(spelled(f), f.Usage)
	}
	return g.String(), nil
}

// commands describes the commands of the binary that are shown to users.
func commands(string) (string, error) {
	var b strings.Builder
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" {
			return
		}
		if c.HasParent() {
			describe(&b, c)
		}
		for _, below := range c.Commands() {
			walk(below)
		}
	}
	root := cli.Command("")
	root.InitDefaultCompletionCmd()
	walk(root)
	return b.String(), nil
}

func describe(b *strings.Builder, c *cobra.Command) {
	fmt.Fprintf(b, "### %s\n\n", c.CommandPath())
	if !c.HasSubCommands() {
		fmt.Fprintf(b, "```\n%s\n```\n\n", c.UseLine())
	}
	text := c.Short + "."
	if c.Long != "" && !c.HasParent() || c.Long != "" && c.Parent().Name() != "completion" {
		text += "\n\n" + strings.TrimSpace(c.Long)
	}
	b.WriteString(strings.ReplaceAll(text, "<", `\<`) + "\n\n")
	if c.Example != "" {
		fmt.Fprintf(b, "```\n%s\n```\n\n", strings.Trim(c.Example, "\n"))
	}
	c.InitDefaultHelpFlag()
	flags := newGrid("flag", "", "default")
	some, client := false, c.LocalFlags().Lookup(common[0]) != nil
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || client && slices.Contains(common, f.Name) {
			return
		}
		some = true
		flags.row(spelled(f), f.Usage, normal(f))
	})
	if some {
		b.WriteString(flags.String() + "\n")
	}
}

// spelled returns a flag as it is typed.
func spelled(f *pflag.Flag) string {
	text := "--" + f.Name
	if f.Shorthand != "" {
		text = "-" + f.Shorthand + ", " + text
	}
	if kind := f.Value.Type(); kind != "bool" {
		text += " " + kind
		if strings.HasSuffix(kind, "Array") {
			text = strings.TrimSuffix(text, "Array") + " …"
		}
	}
	return code(text)
}

// normal returns a flag's default, "" if it is empty.
func normal(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "0", "0s", "false", "[]":
		return ""
	}
	return code(f.DefValue)
}

func exitCodes(root string) (string, error) {
	list, err := constants(root, "localstack/cli/command/command.go", "The exit codes")
	if err != nil {
		return "", err
	}
	g := newGrid("exit code", "")
	for _, c := range list {
		g.row(c.value, c.comment)
	}
	return g.String(), nil
}
