package listing

import "footfall/formats/gcov"

// What gcov of that version does, as far as versions differ. Each question is asked in one place
// only, with the first version that does so. Zero, no version, stands for the newest. How files
// differ is in version.go of package gcov.

func hasGroups(v gcov.Version) bool           { return v.AtLeast(80) }                   // functions that start on one line are listed apart
func propagatesLines(v gcov.Version) bool     { return !v.AtLeast(80) }                  // a block without lines belongs to the line mentioned last; before 8
func marksUnexecuted(v gcov.Version) bool     { return v.AtLeast(80) }                   // a count with a star
func floatPercent(v gcov.Version) bool        { return v.AtLeast(90) }                   // before: integers, 0 and 100 only when exact
func refusesPercent(v gcov.Version) bool      { return v.AtLeast(60) && !v.AtLeast(90) } // of more than the whole
func padsMissingSource(v gcov.Version) bool   { return !v.AtLeast(80) }                  // lines past the end of the source are listed as /*EOF*/
func swapsBlockMarks(v gcov.Version) bool     { return !v.AtLeast(80) }                  // %%%%% for exceptional blocks, $$$$$ for others
func exceptionalLines(v gcov.Version) bool    { return v.AtLeast(47) }                   // ===== for lines that only exceptions reach
func separatesSummaries(v gcov.Version) bool  { return !v.AtLeast(49) }                  // by an empty line also with -n
func dropsUncounted(v gcov.Version) bool      { return !v.AtLeast(80) }                  // functions that the data do not have are left out
func listsPrograms(v gcov.Version) bool       { return !v.AtLeast(90) }
func hasJSON(v gcov.Version) bool             { return v.AtLeast(90) }                   // before: -i writes text
func joinsText(v gcov.Version) bool           { return !v.AtLeast(60) || v.AtLeast(80) } // -i: all sources of an operand in one file, in 6 and 7 a file each
func intermediateVersion(v gcov.Version) bool { return v.AtLeast(80) }                   // the text begins with the version, has end lines and unexecuted blocks
func jsonFloats(v gcov.Version) bool          { return !v.AtLeast(100) }
func jsonIsHashed(v gcov.Version) bool        { return !v.AtLeast(130) } // keys in the order of a hash table
func jsonFormat2(v gcov.Version) bool         { return v.AtLeast(140) }  // block ids, calls, conditions
func jsonPaths(v gcov.Version) bool           { return v.AtLeast(150) }
func jsonNameIsStem(v gcov.Version) bool      { return v.AtLeast(110) }
func jsonFunctionStack(v gcov.Version) bool   { return v.AtLeast(110) } // a line's function is the innermost open one, before: the last begun
func announcesJSON(v gcov.Version) bool       { return v.AtLeast(110) }
func alwaysTotals(v gcov.Version) bool        { return v.AtLeast(110) }
func hasStatus(v gcov.Version) bool           { return v.AtLeast(120) } // an exit status that tells of bad files
func countsInstances(v gcov.Version) bool     { return v.AtLeast(130) } // totals count the lines of each instance
func suffixOnNever(v gcov.Version) bool       { return v.AtLeast(130) } // (fallthrough) behind "never executed" too
func blockIDs(v gcov.Version) bool            { return v.AtLeast(140) } // -a tells the number of the block, before: counts on the line
func functionBranches(v gcov.Version) bool    { return v.AtLeast(150) } // -f tells of branches and calls; before GCC 8 with -b
func extendsToFunctionEnd(v gcov.Version) bool {
	return v.AtLeast(150) // a file's lines reach to the end of its last function
}
