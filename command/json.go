package command

import (
	"fmt"

	"github.com/spf13/cobra"
)

// newJSONCommand returns the command that describes what --output json writes: the description
// is where the program is, and of its version.
func newJSONCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "json",
		Short:                 "Describe the JSON that report, live, diff, callers, profile, fleet and trace write",
		Long:                  jsonText,
		Example:               "  footfall json | less\n\n  # with jq: the functions of a program that were never called\n  footfall report --output json | jq -r '.files[].functions[]? | select(.count == 0).name'",
		DisableFlagsInUseLine: true,
		Args:                  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), jsonText)
			return err
		},
	}
}

const jsonText = `Json describes what --output json writes. Members marked ? are left out when they
are 0, false or empty. Ignore members that you do not know: more may come. The
version is raised when a member changes its meaning or goes.

Report and live write one object. Each file is on a line of its own: every line but
the first and the last is a complete object, once its trailing comma is removed.

  { "format": "footfall coverage", "version": 1,
    "totals": TOTALS,
    "patch_totals"?: TOTALS,         with --diff-base: those of changed lines
    "patch_problems"?: [ { "file", "problem" } ],
                                     changed files of which it is not known what
                                     ran, and why
    "files": [
      { "file": "src/a.c",           from the root, or absolute; by ascending
                                     absolute name
        "totals": TOTALS,
        "stale"?: true,              changed since it was compiled
        "patch_totals"?: TOTALS,     of a changed file
        "tests"?: [ { "name", "lines": [ LINE, COUNT, LINE, COUNT, ... ] } ],
                                     what each named test ran
        "functions"?: [ FUNCTION ],  by ascending line and column
        "told"?: [ FUNCTION ],       what reports told of lines where several
                                     functions became one
        "lines"?: [ LINE ],          lines with code, ascending
        "expansions"?: [ EXPANSION ] } ],
    "excluded"?: [ EXCLUDED ] }      what was left out, by file and line

  EXCLUDED
      "file", "first", "last"        lines
      "what"                         "lines", "function", "branches" or
                                     "exception branches"
      "rule"                         a marker, or an option with its value
      "function"?                    that the rule is about, as the linker knows it

  TOTALS: for each of "lines", "functions", "branches", "exception_branches",
      "conditions", "calls", "regions"?
      "lines": { "covered": 10, "total": 17 }
                                     "branches" does not include
                                     "exception_branches"

  FUNCTION
      "name"                         of the first instance, as the linker knows it
      "line", "column"?, "end_line"?, "end_column"?
      "count"                        calls of all instances
      "blocks", "blocks_executed"    of the instance of which most ran, without
                                     entry and exit
      "regions"?, "regions_run"?     of LLVM's data: parts of the source that are
                                     counted by themselves, the most of any instance
      "unused"?: true                of LLVM's data: the program has no code of it
      "instances"?                   if there are several:
                                     [ { "name", "count", "blocks",
                                         "blocks_executed", "lines"? } ]
                                     "lines" are the instance's own:
                                     [ line, count, line, count ... ], 0 for what
                                     did not run

  EXPANSION: a macro that is used, or a file that is included in a function, of
      LLVM's data
      "line", "column"               where, ascending
      "file"                         of its text
      "lines"                        of its text that ran there: [ line, count, ... ],
                                     0 for what did not run
      "expansions"?                  in its text

  LINE
      "line", "count"
      "changed"?: true               by the patch of --diff-base
      "unexecuted_block"?: true      the line ran, but not all of it
      "exceptional"?: true           only an exception leads here
      "branches"?: [ { "block",      number of the decision on this line, from 0
                       "column"?,
                       "to"?: 7              the line that this way leads to
                       "count",
                       "unevaluated"?: true  the decision was never made
                       "fallthrough"?: true  the way to the next instruction
                       "throw"?: true        the way of an exception
                       "exception"?: true,   nothing but exceptions decides
                       "list"?: true,        several decisions may be in this block,
                                             as in tracefiles of lcov 1
                       "guessed"?: true } ]  so many were taken, but not known
                                             which, as in Cobertura
      "told"?: [ ... ]               branches as reports told them, where lists were
                                     matched with others
      "calls"?: [ { "count", "returned" } ]
      "conditions"?: [ { "column"?, "terms": [ { "true": BOOL, "false": BOOL } ] } ]

Diff writes one object.

  { "format": "footfall comparison", "version": 1,
    "totals": TOTALS,
    "files": [
      { "file",
        "old_file"?                  if it was renamed
        "totals": TOTALS,
        "functions"?: [ CHANGE ],    both only as far as they are neither CBC nor UBC
        "lines"?: [ CHANGE ] } ] }

  TOTALS: for each of "lines", "functions", "branches", "conditions" that there is
      something of
      "lines": { "before": { "covered": 10, "total": 17 },
                 "after": { "covered": 9, "total": 17 },
                 "categories": { "LBC": 1, "CBC": 9, "UBC": 7 } }

  CHANGE
      "name"                         of a function
      "line"?, "old_line"?           in the new and in the old version
      "category"
      "count"?, "old_count"?

Callers writes a list of chains, the most frequent first, the nearest caller first
within each.

  [ { "chain": [ { "function": "left", "file": "/src/target.c", "line": 13,
                   "image": "/srv/server" }, ... ],
      "count": 267 } ]

Profile writes one object. Times are nanoseconds of CPU time, functions are numbered
from 0.

  { "format": "footfall profile", "version": 1,
    "measure"?, "unit"?, "samples"?, only of perf.data: the event if it is not CPU
                                     time, "count" if it is no time at all, and how
                                     many samples there are; then all times here are
                                     numbers of that event
    "title",                         what was profiled
    "total",                         CPU time of all
    "period"?,                       CPU time that a sample stands for
    "hasTime", "hasCalls",           which values there are
    "estimated",                     "total" of functions and "time" of arcs are
                                     estimates, as gprof's
    "notes"?,                        what is missing, as said on standard error
    "functions": [ { "name", "symbol"?, "file"?, "line"?, "image"?, "inlined"?,
                     "self", "total", "calls" } ],
                                     the most costly first; "image" is the program,
                                     the library or "kernel"
    "arcs": [ { "caller", "callee", "time", "calls" } ],
    "stacks"?: [ { "functions", "thread"?, "self" } ] }
                                     the outermost first; only of sampled time

Fleet answers with one object for each question, and so does a server at
/api/v1/QUESTION. Times are of RFC 3339, in UTC; those that are not known are left out.

  releases    releases: release, hosts, first, last, builds: evidence
  never-ran   days, since, as_of, in, builds (evidence), hosts, builds_without_data,
              functions_without_data, functions (how many were looked at),
              functions_unknown (whether they ran),
              never_ran: functions, files: file, functions, never_ran, lines,
              lines_never_ran
  coverage    with --by, as a parameter too: by, groups: name, files, and lines,
              functions, branches: covered, total
  changed     since, until, in, before and after (evidence), began, stopped, added,
              removed: functions
  who         of, places: file, line, last_line, function; hosts: host, runs;
              labels: name, value, hosts, runs; hosts_reported, hosts_without,
              runs_pushed
  tests       of, tests: test, lines, runs (of the line that ran most)
  trend       by, in, points: release or from and to, builds, hosts, and lines,
              functions, branches: covered, total
  sizes       bytes, builds, units, instances, windows, days, first_window,
              last_window, first_day, last_day, closed, program_bytes, window_bytes,
              day_bytes, seen_bytes, texts (of sources), text_bytes
  evidence    build, release, hosts, instances (processes on them), results (that
              were pushed), first, last
  function    file, line, function, lines, first and last (when it ran, in any
              build), tested, builds, hosts

Trace writes one object. Times are nanoseconds, "start" of a call is since the
recording began.

  {"format":"footfall trace 1",
  "recording":{"pid":7,"program":"prog","start":NANOSECONDS_SINCE_1970,"exits":true,
    "functions":[{"name":"leaf","image":"/srv/prog","file":"/src/a.c","line":3}]},
  "calls":[
  {"thread":7,"function":0,"depth":2,"start":1040,"duration":30}],
  "threads":[{"id":7,"name":"prog"}],
  "summary":{"calls":1,"lost":0,"unmatched":0,"cut":0}}

"function" counts from 0 in "functions". Calls come in the order in which they end;
one whose exit was not seen has "cut":true instead of "duration". Without --exits they
come in the order of entries and have neither. A thread of a child has its process as
"process":9, with --follow-exec also "program" and "exec":N after the Nth exec. A call
on another stack of its thread has "stack":1 or more. Functions of libraries that were
loaded later are in a list "loaded" after all calls; their numbers go on from
"functions". Arguments are an object, "arguments":{"path":"/etc","n":3}.`
