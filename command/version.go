package command

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "version",
		Short:                 "Print the version",
		Long:                  `Version prints footfall's version, the Go version it was built with and the platform.`,
		Example:               "  footfall version",
		DisableFlagsInUseLine: true,
		Args:                  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version())
			return err
		},
	}
}

// version describes this build in one line: the module's version, else the
// commit, as far as the go command recorded them.
func version() string {
	v := "(unknown)"
	if build, ok := debug.ReadBuildInfo(); ok {
		v = build.Main.Version
		for _, s := range build.Settings {
			if s.Key == "vcs.revision" && (v == "" || v == "(devel)") {
				v = s.Value
			}
		}
	}
	return fmt.Sprintf("footfall %s %s %s/%s", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
