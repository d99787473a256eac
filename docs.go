package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
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
  footfall completion fish > ~/.config/fish/completions/footfall.fish`,
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
// The same function writes docs/commands.
func newDocsCommand() *cobra.Command {
	var man, markdown string
	cmd := &cobra.Command{
		Use:   "docs {--man DIR|--markdown DIR}",
		Short: "Write the manual of all commands",
		Long: `Docs writes one manual page or one Markdown page for every command into a
directory, which is made where it is missing. Manual pages carry the date in
SOURCE_DATE_EPOCH, where that is set.`,
		Example: `  # manual pages for this user
  footfall docs --man ~/.local/share/man/man1
  man footfall-version

  # the pages in docs/commands
  footfall docs --markdown docs/commands`,
		DisableFlagsInUseLine: true,
		Args:                  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return errors.Join(writeMan(cmd.Root(), man), writeMarkdown(cmd.Root(), markdown))
		},
	}
	cmd.Flags().StringVar(&man, "man", "", "write manual pages to `DIR`")
	cmd.Flags().StringVar(&markdown, "markdown", "", "write Markdown pages to `DIR`")
	cmd.MarkFlagsOneRequired("man", "markdown")
	_ = cmd.MarkFlagDirname("man")
	_ = cmd.MarkFlagDirname("markdown")
	return cmd
}

func writeMan(root *cobra.Command, dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	root.DisableAutoGenTag = true
	header := &doc.GenManHeader{Section: "1", Source: "footfall", Manual: "footfall manual"}
	return doc.GenManTree(root, header, dir)
}

func writeMarkdown(root *cobra.Command, dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	root.DisableAutoGenTag = true
	return doc.GenMarkdownTree(root, dir)
}
