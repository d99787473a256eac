package command

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"footfall/command/options"
)

func newConfigCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config [COMMAND [OPTION...]]",
		Short: "Show the options that commands have here, and where each comes from",
		Long: `Config prints all options with the values that they have in this directory: for
one command, or for all that take options from a file. What it prints is such a
file itself; comments tell where a value comes from: a line of footfall.toml, the
command line, or nowhere (default).

Options of a project are kept in footfall.toml, which is looked for in the working
directory and above, up to the root of the repository, but not in or above a
directory in which everybody may write. Keys are the names of options, in a table
for each command. Options that several commands share, those of reports, may stand
before all tables.

A list is for an option that may be repeated; NAME=VALUE may be written as a table.
Relative paths in the file are seen from its directory. What is given on the
command line wins, and replaces lists as a whole. Keys that no command knows are an
error. Commands that are other programs (gcov, and those of gcov-tool and
gcov-dump) take nothing from the file.`,
		Example: `  # footfall.toml
  root = "."
  exclude = ["third_party/**"]
  exclude-functions = ["*debug_dump*"]

  [report]
  output = ["text", "json=build/coverage.json"]
  fail-under = {lines = 80, branches = 60}

  [live]
  watch = "500ms"

  # what does footfall report do here, and who said so?
  footfall config report

  # with other options, or without the file
  footfall config report --include 'src/**'
  footfall --no-config report`,
		DisableFlagsInUseLine: true,
		ValidArgsFunction:     completeConfigurable,
		RunE: func(cmd *cobra.Command, args []string) error {
			return showConfig(cmd, args)
		},
	}
	cmd.Flags().SetInterspersed(false) // options after COMMAND are that command's
	return cmd
}

func completeConfigurable(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	for _, sub := range cmd.Root().Commands() {
		if len(args) == 0 && configurable(sub) {
			names = append(names, sub.Name())
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// showConfig prints the options of the command in args, or of all commands.
func showConfig(cmd *cobra.Command, args []string) error {
	var shown []*cobra.Command
	for _, sub := range cmd.Root().Commands() {
		if configurable(sub) && (len(args) == 0 || sub.Name() == args[0]) {
			shown = append(shown, sub)
		}
	}
	if len(shown) == 0 {
		return usageError(fmt.Errorf("%q is no command that takes options from a file", args[0]))
	}
	if len(args) > 1 {
		if err := shown[0].ParseFlags(args[1:]); err != nil {
			return usageError(err)
		}
	}
	c, err := loadConfig(cmd)
	if err != nil {
		return configError(err)
	}
	var w bytes.Buffer
	if c == nil {
		fmt.Fprintf(&w, "# no %s\n", options.FileName)
	} else {
		fmt.Fprintf(&w, "# %s\n", c.name)
	}
	for _, sub := range shown {
		var origins map[*pflag.Flag]string
		if c != nil {
			if origins, err = c.apply(sub); err != nil {
				return configError(err)
			}
		}
		if err := printTable(&w, sub, origins); err != nil {
			return err
		}
	}
	_, err = w.WriteTo(cmd.OutOrStdout())
	return err
}

// printTable prints the options of a command as a table of TOML.
func printTable(w io.Writer, cmd *cobra.Command, origins map[*pflag.Flag]string) (err error) {
	var lines, comments []string
	width := 0
	eachConfigFlag(cmd, func(f *pflag.Flag) {
		var text bytes.Buffer
		if e := toml.NewEncoder(&text).Encode(map[string]any{f.Name: valueOf(f)}); e != nil {
			err = e
		}
		line := strings.TrimSpace(text.String())
		if _, wants := f.Annotations[wantsValue]; wants && valueOf(f) == "" {
			line = "# " + line // not to be given so
		}
		width = max(width, len(line))
		lines = append(lines, line)
		switch origin := origins[f]; {
		case origin != "":
			comments = append(comments, origin)
		case f.Changed:
			comments = append(comments, "command line")
		default:
			comments = append(comments, "default")
		}
	})
	if err != nil {
		return err
	}
	width = min(width, 60)
	fmt.Fprintf(w, "\n[%s]\n", cmd.Name())
	for i, line := range lines {
		fmt.Fprintf(w, "%-*s  # %s\n", width, line, comments[i])
	}
	return nil
}

// valueOf returns the value of a flag as TOML has it.
func valueOf(f *pflag.Flag) any {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return append([]string{}, list.GetSlice()...)
	}
	switch f.Value.Type() {
	case "bool":
		return f.Value.String() == "true"
	case "int", "uint64":
		var n int64
		fmt.Sscan(f.Value.String(), &n)
		return n
	}
	return f.Value.String()
}
