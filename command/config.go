package command

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"footfall/command/options"
	"footfall/input"
)

// A config is the options in a configuration file: keys are the names of flags,
// in a table for each command, or before all tables for those that commands
// share.
type config struct {
	name     string // as it is said to people
	dir      string // absolute; relative paths in the file are seen from there
	settings []setting
	root     *cobra.Command
}

// A setting is one key of a configuration file.
type setting struct {
	command string // "": all that share the flag
	key     string
	value   any
	line    int
	parts   map[string]int // of a table: lines of its keys that are not in line
}

// sharedFlag marks flags that may stand before all tables.
const sharedFlag = "footfall_shared"

// shareFlags marks those flags of cmd that describe a project, and mean the same
// for each command that has them.
func shareFlags(cmd *cobra.Command) {
	for _, name := range []string{
		"object-directory", "root", "path-map", "include", "exclude", "system-headers", "exception-branches",
		"exclude-lines", "exclude-branches", "exclude-functions", "exclude-noncode", "no-markers", "marker-prefix", "verbose",
	} {
		if cmd.Flags().Lookup(name) != nil {
			_ = cmd.Flags().SetAnnotation(name, sharedFlag, nil)
		}
	}
}

func isShared(f *pflag.Flag) bool {
	_, shared := f.Annotations[sharedFlag]
	return shared
}

func defineConfigFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.String("config", "", "take options from `FILE` in place of footfall.toml here or above")
	f.Bool("no-config", false, "take no options from a file")
	root.MarkFlagsMutuallyExclusive("config", "no-config")
	_ = root.MarkPersistentFlagFilename("config", "toml")
}

// hidesConfigFlags tells whether the help of cmd has none of them: of a command that is another
// program, which would refuse them.
func hidesConfigFlags(cmd *cobra.Command) bool {
	return cmd.DisableFlagParsing && cmd.Name() != "merge"
}

// withoutConfig takes --no-config from before the name of a command that is another
// program, which takes no options from a file anyhow and does not know the flag.
func withoutConfig(root *cobra.Command, args []string) []string {
	if len(args) < 2 || args[0] != "--no-config" {
		return args
	}
	cmd, _, err := root.Find(args[1:])
	if err != nil || !hidesConfigFlags(cmd) {
		return args
	}
	return args[1:]
}

// configurable tells whether cmd takes options from a file: not where footfall
// is another program, which has its own.
func configurable(cmd *cobra.Command) bool {
	some := false
	eachConfigFlag(cmd, func(*pflag.Flag) { some = true })
	return some && !cmd.DisableFlagParsing && cmd.Name() != "docs"
}

// eachConfigFlag calls f with the flags of cmd that may be set in a file.
func eachConfigFlag(cmd *cobra.Command, f func(*pflag.Flag)) {
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "help" && cmd.HasParent() {
			f(flag)
		}
	})
}

// applyConfig gives cmd the options of the configuration file, if there is one;
// what stands on the command line wins. It returns where options come from.
func applyConfig(cmd *cobra.Command) (origins map[*pflag.Flag]string, err error) {
	c, err := loadConfig(cmd)
	if err == nil && c != nil {
		origins, err = c.apply(cmd)
	}
	return origins, configError(err)
}

// configError marks a mistake in a configuration file. It is none in the
// command line, but as that is wrong before a command starts.
func configError(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{status: statusUsage, err: err, inFile: true}
}

// loadConfig returns the configuration for the command line of cmd, nil if
// there is none.
func loadConfig(cmd *cobra.Command) (*config, error) {
	if none, _ := cmd.Flags().GetBool("no-config"); none {
		return nil, nil
	}
	name, _ := cmd.Flags().GetString("config")
	if name == "" {
		here, err := os.Getwd()
		if err != nil {
			return nil, nil // no report without --root then, but other commands work
		}
		if name, err = options.Find(filepath.ToSlash(here)); name == "" || err != nil {
			return nil, err
		}
	}
	c, err := readConfig(name, cmd.Root())
	if err != nil {
		return nil, err
	}
	return c, c.check()
}

// mostConfig is the size of a configuration file, at most: what reads TOML takes
// much more time and memory than the text has bytes.
const mostConfig = 1 << 16

// readConfig reads a file. Its name is said as seen from the working directory
// where that is shorter.
func readConfig(name string, root *cobra.Command) (*config, error) {
	text, err := input.ReadFile(name, mostConfig)
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	addOthers(root) // it may have options of any
	c := &config{name: name, dir: filepath.Dir(path), root: root}
	if here, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(here, path); err == nil && len(rel) < len(name) {
			c.name = rel
		}
	}
	return c, c.parse(string(text))
}

// parse reads the text statement by statement, so that each key is known with
// its line.
func (c *config) parse(text string) error {
	text = strings.TrimPrefix(text, "\ufeff") // some editors' mark
	statements, err := tomlStatements(text)
	if err != nil {
		return fmt.Errorf("%s:%w", c.name, err)
	}
	var all map[string]any
	if _, err := toml.Decode(text, &all); err != nil {
		var at toml.ParseError
		if errors.As(err, &at) {
			return fmt.Errorf("%s:%d: %s", c.name, at.Position.Line, at.Message)
		}
		return fmt.Errorf("%s: %w", c.name, err)
	}
	var table []string
	for _, s := range statements {
		var values map[string]any
		meta, err := toml.Decode(s.text, &values)
		switch {
		case err != nil:
			return fmt.Errorf("%s:%d: %w", c.name, s.line, err)
		case len(values) == 0:
		case strings.HasPrefix(strings.TrimSpace(s.text), "["):
			table = meta.Keys()[0]
			var inner any = values
			for _, key := range table {
				of, _ := inner.(map[string]any)
				if inner = of[key]; inner == nil {
					break
				}
			}
			if _, isTable := inner.(map[string]any); !isTable {
				return fmt.Errorf("%s:%d: a table has one pair of brackets: [%s]", c.name, s.line, meta.Keys()[0])
			}
			c.add(values, s.line)
		default:
			for _, key := range slices.Backward(table) {
				values = map[string]any{key: values}
			}
			c.add(values, s.line)
		}
	}
	return nil
}

// add notes the settings in values, which is nested as the file's tables are.
func (c *config) add(values map[string]any, line int) {
	for name, value := range values {
		inner, isTable := value.(map[string]any)
		if !isTable || c.command(name) == nil {
			c.addTo("", name, value, line)
			continue
		}
		for key, value := range inner {
			c.addTo(name, key, value, line)
		}
	}
}

// addTo joins what several lines say of one key: fail-under.lines and
// fail-under.branches.
func (c *config) addTo(command, key string, value any, line int) {
	for i, s := range c.settings {
		had, ok := s.value.(map[string]any)
		if more, isTable := value.(map[string]any); ok && isTable && s.command == command && s.key == key {
			join(had, more)
			if s.parts == nil {
				c.settings[i].parts = make(map[string]int)
			}
			for part := range more {
				c.settings[i].parts[part] = line
			}
			return
		}
	}
	c.settings = append(c.settings, setting{command: command, key: key, value: value, line: line})
}

// join adds one table to another, and the tables within.
func join(had, more map[string]any) {
	for key, value := range more {
		inner, isTable := value.(map[string]any)
		if of, ok := had[key].(map[string]any); ok && isTable {
			join(of, inner)
		} else {
			had[key] = value
		}
	}
}

// flat makes one table of one with tables for places: "src/net" = {lines = 90} is
// "src/net:lines" = 90.
func flat(value any) any {
	table, isTable := value.(map[string]any)
	if !isTable {
		return value
	}
	all := make(map[string]any)
	for place, value := range table {
		if metrics, isTable := value.(map[string]any); isTable {
			for metric, percent := range metrics {
				all[place+":"+metric] = percent
			}
		} else {
			all[place] = value
		}
	}
	return all
}

// command returns the command of that name, nil if there is none.
func (c *config) command(name string) *cobra.Command {
	for _, sub := range c.root.Commands() {
		if sub.Name() == name {
			return sub
		}
	}
	return nil
}

func (c *config) errorf(s setting, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", c.name, s.line, fmt.Sprintf(format, args...))
}

// elsewhere marks commands that do not work on this system.
const elsewhere = "footfall_elsewhere"

// check finds keys that no command knows and values that are wrong, whichever
// command runs.
func (c *config) check() error {
	for _, s := range c.settings {
		of := c.root.Commands()
		what := "table or shared option"
		var names []string
		if s.command != "" {
			of, what = []*cobra.Command{c.command(s.command)}, "option of footfall "+s.command
			if of[0].Annotations[elsewhere] != "" {
				continue // what it knows is known where it works
			}
			if !configurable(of[0]) {
				return c.errorf(s, "footfall %s takes no options from a file", s.command)
			}
		}
		for _, cmd := range of {
			if !configurable(cmd) {
				continue
			}
			if s.command == "" {
				names = append(names, cmd.Name())
			}
			eachConfigFlag(cmd, func(f *pflag.Flag) {
				if s.command != "" || isShared(f) {
					names = append(names, f.Name)
				}
			})
		}
		if slices.Contains(names, s.key) && (s.command != "" || c.command(s.key) == nil) {
			if err := c.checkValue(s, of); err != nil {
				return err
			}
			continue
		}
		hint := ""
		if near := nearest(s.key, names); near != "" && near != s.key {
			hint = fmt.Sprintf("; did you mean %q?", near)
		}
		return c.errorf(s, "%q is no %s%s", s.key, what, hint)
	}
	return nil
}

// checkValue checks the value of a setting for the commands that have it.
func (c *config) checkValue(s setting, commands []*cobra.Command) error {
	for _, cmd := range commands {
		f := cmd.LocalFlags().Lookup(s.key)
		if f == nil || !configurable(cmd) || s.command == "" && !isShared(f) {
			continue
		}
		values, err := c.values(f, s)
		if err != nil {
			return err
		}
		for _, v := range values {
			if err := checkOption(cmd.Name(), f, v); err != nil {
				part, _, _ := strings.Cut(v, "=")
				place := part[:max(strings.LastIndexByte(part, ':'), 0)]
				s.line = cmp.Or(s.parts[part], s.parts[place], s.line)
				if strings.HasPrefix(err.Error(), "--"+s.key) {
					return c.errorf(s, "%v", err)
				}
				return c.errorf(s, "%s: %v", s.key, err)
			}
		}
		if other := c.contradicts(cmd, f, s); other != "" {
			return c.errorf(s, "%s and %s do not go together", other, s.key)
		}
	}
	return nil
}

// contradicts returns the option of the same table, in a line before, that does
// not go with f, "" if there is none.
func (c *config) contradicts(cmd *cobra.Command, f *pflag.Flag, s setting) string {
	if values, err := c.values(f, s); err != nil || !isGiven(f, values) {
		return ""
	}
	for _, o := range c.settings {
		if o.command != s.command || o.line >= s.line || !excludedBy(f, map[string]bool{o.key: true}) {
			continue
		}
		other := cmd.LocalFlags().Lookup(o.key)
		if values, err := c.values(other, o); err == nil && isGiven(other, values) {
			return o.key
		}
	}
	return ""
}

// nearest returns the name that has the fewest letters other than word has, ""
// if all are quite different.
func nearest(word string, names []string) string {
	best, least := "", 1+min(3, len(word)/2)
	for _, name := range names {
		if d := levenshtein.ComputeDistance(word, name); d < least {
			best, least = name, d
		}
	}
	return best
}

// apply sets the flags of cmd. Those of its table win over shared ones.
func (c *config) apply(cmd *cobra.Command) (map[*pflag.Flag]string, error) {
	given := make(map[string]bool) // on the command line
	asked := false
	cmd.Flags().Visit(func(f *pflag.Flag) {
		given[f.Name] = true
		asked = asked || f.Annotations[question] != nil
	})
	origins := make(map[*pflag.Flag]string)
	for _, command := range []string{"", cmd.Name()} {
		for _, s := range c.settings {
			f := cmd.LocalFlags().Lookup(s.key)
			if f == nil || s.command != command || given[s.key] || excludedBy(f, given) || asked && isVerdict[s.key] {
				continue
			}
			if command == "" && !isShared(f) {
				continue
			}
			if err := c.set(f, s); err != nil {
				return nil, err
			}
			origins[f] = fmt.Sprintf("%s:%d", c.name, s.line)
		}
	}
	return origins, nil
}

// question marks flags that ask one thing: what stands in a file for every report is
// not written and not judged then.
const question = "footfall_question"

// isVerdict are the options that a question leaves out.
var isVerdict = map[string]bool{"output": true, "fail-under": true}

// markQuestions marks flags of a command as questions.
func markQuestions(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		_ = cmd.Flags().SetAnnotation(name, question, []string{"true"})
	}
}

// excludedBy tells whether a flag that was given does not go with f.
func excludedBy(f *pflag.Flag, given map[string]bool) bool {
	const exclusive = "cobra_annotation_mutually_exclusive" // of cobra's MarkFlagsMutuallyExclusive
	for _, group := range f.Annotations[exclusive] {
		if slices.ContainsFunc(strings.Fields(group), func(name string) bool { return name != f.Name && given[name] }) {
			return true
		}
	}
	return false
}

// values returns what is to be set, one text for each time that the flag would
// be given on the command line.
func (c *config) values(f *pflag.Flag, s setting) ([]string, error) {
	_, isList := f.Value.(pflag.SliceValue)
	value := s.value
	if f.Name == "fail-under" {
		value = flat(value)
	}
	values, err := textsOf(value)
	_, isBool := s.value.(bool)
	switch {
	case err != nil:
	case f.Value.Type() == "bool" && !isBool:
		err = errors.New("wants true or false")
	case isBool && f.NoOptDefVal == "":
		err = errors.New("wants a value")
	case !isList && len(values) != 1:
		err = errors.New("wants one value")
	case slices.Contains(values, ""):
		if _, wants := f.Annotations[wantsValue]; wants {
			err = errors.New("is empty")
		}
	}
	if err != nil {
		return nil, c.errorf(s, "%s %v", s.key, err)
	}
	if isBool && f.Value.Type() != "bool" {
		if values[0] = ""; s.value == true {
			values[0] = f.NoOptDefVal
		}
	}
	for i, v := range values {
		values[i] = c.resolve(f, v)
	}
	return values, nil
}

func (c *config) set(f *pflag.Flag, s setting) error {
	values, err := c.values(f, s)
	if err != nil {
		return err
	}
	if list, isList := f.Value.(pflag.SliceValue); isList {
		err = list.Replace(values)
	} else {
		err = f.Value.Set(values[0])
	}
	if err != nil {
		return c.errorf(s, "%s: %v", s.key, err)
	}
	f.Changed = isGiven(f, values)
	return nil
}

// isGiven tells whether values say something: what is so anyway, as footfall
// config shows it, does not keep other options away.
func isGiven(f *pflag.Flag, values []string) bool {
	if _, isList := f.Value.(pflag.SliceValue); isList {
		return f.DefValue != "["+strings.Join(values, ",")+"]"
	}
	return f.DefValue != values[0]
}

// textsOf returns a value as it would stand on the command line, one text for
// each time that the flag is given. A table is KEY=VALUE by ascending key.
func textsOf(value any) ([]string, error) {
	texts := []string{}
	switch v := value.(type) {
	case []any:
		for _, e := range v {
			if !isScalar(e) {
				return nil, errors.New("wants a list of texts")
			}
			texts = append(texts, fmt.Sprint(e))
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if !isScalar(v[key]) {
				return nil, errors.New("wants a table of texts or numbers")
			}
			texts = append(texts, fmt.Sprintf("%s=%v", key, v[key]))
		}
	default:
		if !isScalar(v) {
			return nil, errors.New("wants a text, a number or a list, no time")
		}
		texts = append(texts, fmt.Sprint(v))
	}
	return texts, nil
}

func isScalar(value any) bool {
	switch value.(type) {
	case string, bool, int64, float64:
		return true
	}
	return false
}

// resolve returns a flag's value with the path in it seen from the working
// directory rather than from that of the file.
func (c *config) resolve(f *pflag.Flag, value string) string {
	here, err := os.Getwd()
	if err == nil && here == c.dir {
		return value
	}
	_, isDir := f.Annotations[cobra.BashCompSubdirsInDir]
	before, path, cut := "", value, false
	switch what, _ := pflag.UnquoteUsage(f); {
	case what == "FORMAT[=FILE]", f.Name == "path-map":
		before, path, cut = strings.Cut(value, "=")
		before += "="
	case f.Name == "include", f.Name == "exclude": // patterns; those without a dot are seen from the root
		cut = value == "." || value == ".." || strings.HasPrefix(value, "./") || strings.HasPrefix(value, "../")
	case strings.HasSuffix(what, "|FILE"): // a revision, or
		info, err := os.Stat(filepath.Join(c.dir, value))
		cut = err == nil && !info.IsDir() || strings.HasSuffix(value, ".patch") || strings.HasSuffix(value, ".diff")
	default:
		cut = isDir || what == "FILE"
	}
	if !cut || path == "" || path == "-" || filepath.IsAbs(path) {
		return value
	}
	joined := filepath.Join(c.dir, path)
	if strings.HasSuffix(path, "/") {
		joined += "/" // a pattern that is a directory
	}
	return before + joined
}
