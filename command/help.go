package command

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// This file has the help of all commands: the commands in groups, and of long lists of options
// those first that are used most. Manual pages and docs/commands have the same order.

// oftenUsed names, in an annotation of a command, the options that its help has first.
const oftenUsed = "footfall_often_used"

// showFirst lets the help of cmd have these options first, in that order.
func showFirst(cmd *cobra.Command, names ...string) {
	if cmd.Annotations == nil {
		cmd.Annotations = make(map[string]string)
	}
	cmd.Annotations[oftenUsed] = strings.Join(names, " ")
}

// An optionList is options that the help shows together, in their order.
type optionList struct {
	title string
	flags []*pflag.Flag
}

// optionLists are the options of cmd as its help shows them; those that all commands have are not among them.
func optionLists(cmd *cobra.Command) []optionList {
	cmd.InitDefaultHelpFlag()
	var often, others []*pflag.Flag
	for _, name := range strings.Fields(cmd.Annotations[oftenUsed]) {
		often = append(often, cmd.Flags().Lookup(name))
	}
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && !slices.Contains(often, f) {
			others = append(others, f)
		}
	})
	if len(often) == 0 {
		return []optionList{{"Options", others}}
	}
	return []optionList{{"Most used options", often}, {"Other options", others}}
}

// printUsage prints what follows the description of a command in its help.
func printUsage(cmd *cobra.Command) error {
	w := cmd.OutOrStderr()
	fmt.Fprintf(w, "Usage:\n  %s\n", usageLine(cmd))
	if cmd.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	for _, g := range cmd.Groups() {
		fmt.Fprintf(w, "\n%s:\n", g.Title)
		for _, sub := range cmd.Commands() {
			if sub.GroupID == g.ID && !sub.Hidden {
				fmt.Fprintf(w, "  %-13s %s\n", sub.Name(), sub.Short)
			}
		}
	}
	for _, list := range optionLists(cmd) {
		printOptions(w, list)
	}
	if inherited := cmd.InheritedFlags(); inherited.HasAvailableFlags() && !hidesConfigFlags(cmd) {
		fmt.Fprintf(w, "\nOptions of all commands:\n%s", inherited.FlagUsages())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\n'%s COMMAND --help' shows the options and examples of a command.\n", cmd.CommandPath())
	}
	return nil
}

// checkHelpTopic lets help fail for what is no command; cobra's prints the usage and succeeds.
func checkHelpTopic(root *cobra.Command) {
	help, _, _ := root.Find([]string{"help"})
	help.Args = func(_ *cobra.Command, args []string) error {
		_, _, err := root.Find(args)
		return err
	}
}

// plainTexts takes the marks of values out of the texts of options, for shells, which
// show these texts as they are when they complete.
func plainTexts(cmd *cobra.Command) {
	plain := func(f *pflag.Flag) { _, f.Usage = pflag.UnquoteUsage(f) }
	cmd.PersistentFlags().VisitAll(plain)
	cmd.Flags().VisitAll(plain)
	for _, sub := range cmd.Commands() {
		plainTexts(sub)
	}
}

func printOptions(w io.Writer, list optionList) {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.SortFlags = false
	for _, f := range list.flags {
		set.AddFlag(f)
	}
	fmt.Fprintf(w, "\n%s:\n%s", list.title, set.FlagUsagesWrapped(120))
}
