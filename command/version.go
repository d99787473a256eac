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

// release is the version of a release: scripts/release has the linker set it.
var release string

// version describes this build in one line: that of the release, else the module's, which in
// a clone is by the last tag, else the commit, as far as the go command recorded them.
func version() string {
	if release != "" {
		return fmt.Sprintf("footfall %s %s %s/%s", release, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	}
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
