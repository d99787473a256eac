package command

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"footfall/output"
)

func newCompletionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion {bash|zsh|fish|powershell}",
		Short: "Print a script that completes footfall's commands in a shell",
		Long: `Completion prints a script for the shell that completes footfall's commands,
flags and files when the tab key is pressed.`,
		Example: `  # bash, in this shell
  source <(footfall completion bash)

  # bash, in every new shell
  footfall completion bash > /etc/bash_completion.d/footfall

  # zsh, into a directory of $fpath
  footfall completion zsh > "${fpath[1]}/_footfall"

  # fish
  footfall completion fish > ~/.config/fish/completions/footfall.fish

  # PowerShell, in every new shell
  footfall completion powershell >> $PROFILE`,
		DisableFlagsInUseLine: true,
		ValidArgs:             []string{"bash", "zsh", "fish", "powershell"},
		Args:                  cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, out := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			default:
				return root.GenPowerShellCompletionWithDesc(out)
			}
		},
	}
}

// newDocsCommand returns the command that packagers use to make manual pages.
// The same functions write docs/commands.
func newDocsCommand() *cobra.Command {
	var man, markdown string
	cmd := &cobra.Command{
		Use:   "docs {--man DIR|--markdown DIR}",
		Short: "Write the manual of all commands",
		Long: `Docs writes one manual page or one Markdown page for every command into a
directory, which is made where it is missing.`,
		Example: `  # manual pages for this user
  footfall docs --man ~/.local/share/man/man1
  man footfall-report

  # the pages in docs/commands
  footfall docs --markdown docs/commands`,
		DisableFlagsInUseLine: true,
		Args:                  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var errMan, errMarkdown error
			if man != "" {
				errMan = writePages(cmd.Root(), man, "-", ".1", manPage)
			}
			if markdown != "" {
				errMarkdown = writePages(cmd.Root(), markdown, "_", ".md", markdownPage)
			}
			return errors.Join(errMan, errMarkdown)
		},
	}
	cmd.Flags().StringVar(&man, "man", "", "write manual pages to `DIR`")
	cmd.Flags().StringVar(&markdown, "markdown", "", "write Markdown pages to `DIR`")
	cmd.MarkFlagsOneRequired("man", "markdown")
	_ = cmd.MarkFlagDirname("man")
	_ = cmd.MarkFlagDirname("markdown")
	return cmd
}

// writePages writes a page for cmd and for each command below it. A page's
// file is the command's path, joined by sep, plus ext.
func writePages(cmd *cobra.Command, dir, sep, ext string, page func(*cobra.Command) string) error {
	if err := output.Directory(dir); err != nil {
		return err
	}
	name := strings.ReplaceAll(cmd.CommandPath(), " ", sep) + ext
	if err := output.WriteBytes(filepath.Join(dir, name), []byte(page(cmd))); err != nil {
		return err
	}
	for _, sub := range documented(cmd) {
		if err := writePages(sub, dir, sep, ext, page); err != nil {
			return err
		}
	}
	return nil
}

// documented returns the commands below cmd that have pages.
func documented(cmd *cobra.Command) []*cobra.Command {
	var subs []*cobra.Command
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			subs = append(subs, sub)
		}
	}
	return subs
}

func usageLine(cmd *cobra.Command) string {
	if !cmd.Runnable() {
		return cmd.CommandPath() + " COMMAND [ARG...]"
	}
	return cmd.UseLine()
}

// eachOption calls f with every option of a list: how it is typed, and what it does.
func eachOption(list optionList, f func(option, text string)) {
	for _, flag := range list.flags {
		value, text := pflag.UnquoteUsage(flag)
		option := "--" + flag.Name
		if flag.Shorthand != "" {
			option = "-" + flag.Shorthand + ", " + option
		}
		if value != "" {
			option += " " + value
		}
		if def := strings.Trim(flag.DefValue, "[]"); def != "" && def != "false" && def != "0" {
			text += " (default: " + def + ")"
		}
		f(option, text)
	}
}

// eachBlock splits a help text into its paragraphs. Indented ones are literal:
// examples and tables, with lines that must stay as they are.
func eachBlock(text string, f func(block string, literal bool)) {
	var block []string
	literal := false
	flush := func() {
		if s := strings.Trim(strings.Join(block, "\n"), "\n"); s != "" {
			f(s, literal)
		}
		block = nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		indented := strings.HasPrefix(line, "  ")
		if line == "" && literal {
			block = append(block, line) // a blank line within a literal block, perhaps
			continue
		}
		if line == "" || indented != literal {
			flush()
		}
		if line != "" {
			literal = indented
			block = append(block, strings.TrimPrefix(line, "  "))
		}
	}
	flush()
}

var markdownText = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `_`, `\_`, "`", "\\`", `<`, `\<`, `[`, `\[`, `#`, `\#`)

func markdownPage(cmd *cobra.Command) string {
	var b strings.Builder
	code := func(s string) { fmt.Fprintf(&b, "```\n%s\n```\n\n", s) }
	blocks := func(text string) {
		eachBlock(text, func(block string, literal bool) {
			if literal {
				code(block)
			} else {
				b.WriteString(markdownText.Replace(block) + "\n\n")
			}
		})
	}
	fmt.Fprintf(&b, "# %s\n\n%s.\n\n", cmd.CommandPath(), markdownText.Replace(cmd.Short))
	code(usageLine(cmd))
	blocks(cmd.Long)
	if cmd.Example != "" {
		b.WriteString("## Examples\n\n")
		blocks(cmd.Example)
	}
	for i, list := range optionLists(cmd) {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "## %s\n\n", list.title)
		eachOption(list, func(option, text string) {
			fmt.Fprintf(&b, "- `%s`: %s\n", option, markdownText.Replace(text))
		})
	}
	for _, g := range cmd.Groups() {
		fmt.Fprintf(&b, "\n## %s\n\n", g.Title)
		for _, sub := range documented(cmd) {
			if sub.GroupID != g.ID {
				continue
			}
			page := strings.ReplaceAll(sub.CommandPath(), " ", "_") + ".md"
			fmt.Fprintf(&b, "- [%s](%s): %s\n", sub.CommandPath(), page, markdownText.Replace(sub.Short))
		}
	}
	return b.String()
}

// manText makes text safe for troff: no escape, no request, and hyphens that
// can be copied from the page into a shell.
func manText(text string) string {
	text = strings.NewReplacer(`\`, `\e`, `-`, `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

func manPage(cmd *cobra.Command) string {
	var b strings.Builder
	blocks := func(text string) {
		eachBlock(text, func(block string, literal bool) {
			if literal {
				fmt.Fprintf(&b, ".PP\n.in +4n\n.nf\n%s\n.fi\n.in\n", manText(block))
			} else {
				fmt.Fprintf(&b, ".PP\n%s\n", manText(block))
			}
		})
	}
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %s 1 \"\" footfall\n", strings.ToUpper(manText(name)))
	fmt.Fprintf(&b, ".nh\n.ad l\n.SH NAME\n%s \\- %s\n", manText(name), manText(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", manText(usageLine(cmd)))
	b.WriteString(".SH DESCRIPTION\n")
	blocks(cmd.Long)
	if subs := documented(cmd); len(subs) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, sub := range subs {
			page := strings.ReplaceAll(sub.CommandPath(), " ", "-")
			fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", manText(page), manText(sub.Short))
		}
	}
	for _, list := range optionLists(cmd) {
		fmt.Fprintf(&b, ".SH %s\n", strings.ToUpper(list.title))
		eachOption(list, func(option, text string) {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", manText(option), manText(text))
		})
	}
	if cmd.Example != "" {
		b.WriteString(".SH EXAMPLES\n")
		blocks(cmd.Example)
	}
	if cmd.HasParent() {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", manText(strings.ReplaceAll(cmd.Parent().CommandPath(), " ", "-")))
	}
	return b.String()
}
