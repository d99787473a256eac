//go:build linux

package command

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"footfall/process/needs"
)

// TestRecipesOfCI runs what recipes/github and recipes/gitlab have run, of two changes of a
// project: one that brings a function with its test, and one without.
func TestRecipesOfCI(t *testing.T) {
	if testing.Short() {
		t.Skip("builds")
	}
	for _, tool := range []string{"git", "gcc", "make", "cmake", "curl", "sha256sum", "tar"} {
		if _, err := exec.LookPath(tool); err != nil {
			needs.Skip(t, needs.Tools, err)
		}
	}
	for _, service := range []struct {
		name, build string
		jobs        func(t *testing.T, file []byte) ciJob
	}{
		{"github", "cmake", githubJob},
		{"gitlab", "make", gitlabJob},
	} {
		for _, tested := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/tested=%t", service.name, tested), func(t *testing.T) {
				t.Parallel()
				file, err := os.ReadFile(filepath.Join("..", "recipes", service.name, "coverage.yml"))
				if err != nil {
					t.Fatal(err)
				}
				dir := changedProject(t, service.build, tested)
				result := service.jobs(t, file).run(t, dir)
				if want := map[bool]int{true: 0, false: 3}[tested]; result.status != want {
					t.Errorf("exit status %d, expected %d", result.status, want)
				}
				result.check(t, dir, tested)
			})
		}
	}
}

// A ciJob is what a job runs, a shell for each script.
type ciJob struct {
	scripts []ciScript
	env     map[string]string // of all
	// check looks at what was made of a change.
	check func(t *testing.T, dir, output string, tested bool)
}

type ciScript struct {
	text   string
	always bool              // also if one before failed
	env    map[string]string // names of variables, and values
	shell  []string
}

type ciResult struct {
	status int
	check  func(t *testing.T, dir string, tested bool)
}

// run runs the scripts as the service's runner does.
func (j ciJob) run(t *testing.T, dir string) ciResult {
	t.Helper()
	temp := t.TempDir()
	paths := filepath.Join(temp, "path")
	release, sum := tarball(t, temp)
	env := []string{"RUNNER_TEMP=" + temp, "GITHUB_PATH=" + paths, "GITHUB_STEP_SUMMARY=" + filepath.Join(dir, "..", "summary.md"),
		"FOOTFALL_URL=file://" + release, "FOOTFALL_SHA256=" + sum, "LC_ALL=C.UTF-8", "HOME=" + temp, "CI=true"}
	path := pathWithoutFootfall()
	var result ciResult
	var output bytes.Buffer
	for _, s := range j.scripts {
		if result.status != 0 && !s.always {
			continue
		}
		if added, err := os.ReadFile(paths); err == nil {
			path = strings.Join(strings.Fields(string(added)), ":") + ":" + path
			os.Remove(paths)
		}
		name := filepath.Join(temp, "script")
		if err := os.WriteFile(name, []byte(s.text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(s.shell[0], append(s.shell[1:], name)...)
		cmd.Dir, cmd.Env = dir, append(slices.Clone(env), "PATH="+path)
		for _, of := range []map[string]string{j.env, s.env} {
			for name, value := range of {
				if !strings.Contains(value, "vars.FOOTFALL_") {
					cmd.Env = append(cmd.Env, name+"="+value)
				}
			}
		}
		output.WriteString("$ " + s.text + "\n")
		cmd.Stdout, cmd.Stderr = &output, &output
		if err := cmd.Run(); err != nil && result.status == 0 {
			if result.status = cmd.ProcessState.ExitCode(); result.status <= 0 {
				t.Fatal(err)
			}
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", output.Bytes())
		}
	})
	result.check = func(t *testing.T, dir string, tested bool) { j.check(t, dir, output.String(), tested) }
	return result
}

// githubJob reads a workflow: https://docs.github.com/actions/reference/workflows-and-actions/workflow-syntax
func githubJob(t *testing.T, file []byte) ciJob {
	t.Helper()
	var workflow struct {
		Name        string
		On          map[string]any
		Permissions map[string]string
		Jobs        map[string]struct {
			RunsOn string `yaml:"runs-on"`
			Steps  []struct {
				Name, Uses, Run, If string
				Env                 map[string]string
				With                map[string]any
			}
		}
	}
	strictly(t, file, &workflow)
	job, ok := workflow.Jobs["coverage"]
	if !ok || job.RunsOn == "" || workflow.On["pull_request"] != nil {
		t.Fatalf("no job of pull requests: %+v", workflow)
	}
	var j ciJob
	pages := ""
	for _, step := range job.Steps {
		always := step.If == "${{ !cancelled() }}"
		if step.If != "" && !always {
			t.Errorf("%s: if %q is not known here", step.Name, step.If)
		}
		if strings.Contains(step.Run, "${{") {
			t.Errorf("%s: an expression in a script lets a name of a branch run commands", step.Name)
		}
		if step.Run != "" {
			j.scripts = append(j.scripts, ciScript{step.Run, always, step.Env, []string{"bash", "-e"}})
		}
		if strings.HasPrefix(step.Uses, "actions/upload-artifact@") && always {
			pages, _ = step.With["path"].(string)
		}
	}
	j.check = func(t *testing.T, dir, output string, tested bool) {
		exists(t, dir, pages, "index.html")
		annotation := regexp.MustCompile(`(?m)^::\w+ file=src/words.c,line=\d+.*`).FindString(output)
		if (annotation != "") == tested {
			t.Errorf("annotation %q", annotation)
		}
		summary, err := os.ReadFile(filepath.Join(dir, "..", "summary.md"))
		if line := "| changed lines | " + map[bool]string{true: "100.0%", false: "0.0%"}[tested]; err != nil || !strings.Contains(string(summary), line) {
			t.Errorf("summary: %v\n%s", err, summary)
		}
	}
	return j
}

// gitlabJob reads a file of GitLab's: https://docs.gitlab.com/ci/yaml
func gitlabJob(t *testing.T, file []byte) ciJob {
	t.Helper()
	var pipeline map[string]struct {
		Image        string
		Rules        []map[string]string
		Variables    map[string]string
		BeforeScript []string `yaml:"before_script"`
		Script       []string
		Coverage     string
		Artifacts    struct {
			When     string
			ExposeAs string `yaml:"expose_as"`
			Paths    []string
			Reports  struct {
				Codequality    string
				CoverageReport struct {
					CoverageFormat string `yaml:"coverage_format"`
					Path           string
				} `yaml:"coverage_report"`
			}
		}
	}
	strictly(t, file, &pipeline)
	job := pipeline["coverage"]
	if job.Artifacts.When != "always" || len(job.Artifacts.Paths) != 1 {
		t.Fatalf("artifacts: %+v", job.Artifacts)
	}
	// The runner has all lines run by one shell, which ends where one fails.
	env := map[string]string{"CI_MERGE_REQUEST_DIFF_BASE_SHA": "HEAD^1"}
	for name, value := range job.Variables {
		env[name] = value
	}
	lines := strings.Join(append(job.BeforeScript, job.Script...), "\n")
	j := ciJob{env: env, scripts: []ciScript{{text: lines, shell: []string{"bash", "-eo", "pipefail"}}}}
	j.check = func(t *testing.T, dir, output string, tested bool) {
		a := job.Artifacts
		exists(t, dir, a.Paths[0], "index.html")
		if r := a.Reports.CoverageReport; r.CoverageFormat != "cobertura" {
			t.Errorf("%+v", r)
		} else if xml, err := os.ReadFile(filepath.Join(dir, r.Path)); err != nil || !bytes.Contains(xml, []byte(`filename="src/words.c"`)) {
			t.Errorf("%v\n%s", err, xml)
		}
		quality, err := os.ReadFile(filepath.Join(dir, a.Reports.Codequality))
		if err != nil || bytes.Contains(quality, []byte("words.c")) == tested {
			t.Errorf("%v\n%s", err, quality)
		}
		// GitLab's expressions are RE2's, as ours.
		found := regexp.MustCompile("(?m)" + strings.Trim(job.Coverage, "/")).FindStringSubmatch(output)
		if len(found) != 2 || (found[1] == "100.0") != tested {
			t.Errorf("coverage: %q in %q", found, output)
		}
	}
	return j
}

// strictly reads YAML, in which nothing else may stand.
func strictly(t *testing.T, file []byte, to any) {
	t.Helper()
	d := yaml.NewDecoder(bytes.NewReader(file))
	d.KnownFields(true)
	if err := d.Decode(to); err != nil {
		t.Fatal(err)
	}
}

func exists(t *testing.T, name ...string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(name...)); err != nil {
		t.Error(err)
	}
}

// changedProject is recipes/project in a repository whose last commit adds a function.
func changedProject(t *testing.T, build string, tested bool) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "project")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range []string{"project", build} {
		must(os.CopyFS(dir, os.DirFS(filepath.Join("..", "recipes", part))))
	}
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@localhost"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "one")
	source := filepath.Join(dir, "src", "words.c")
	text, err := os.ReadFile(source)
	must(err)
	text = append(text, "\nint has_words(const char *text)\n{\n\treturn count_words(text) > 0;\n}\n"...)
	must(os.WriteFile(source, text, 0o666))
	if tested {
		const test = "int has_words(const char *);\nint longest_word(const char *);\n\n" +
			"int main(void)\n{\n\treturn has_words(\"one\") && longest_word(\"one two\") == 3 ? 0 : 1;\n}\n"
		must(os.WriteFile(filepath.Join(dir, "tests", "longest.c"), []byte(test), 0o666))
	}
	git("commit", "-q", "-a", "-m", "two")
	return dir
}

// tarball is a release as scripts/release makes it, with this program in it, and its
// checksum.
func tarball(t *testing.T, dir string) (name, sum string) {
	t.Helper()
	program, err := exec.LookPath("footfall")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: "footfall-1.0-linux-amd64/footfall", Mode: 0o755, Size: int64(len(b))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	name = filepath.Join(dir, "release.tar.gz")
	if err := os.WriteFile(name, packed.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	of := sha256.Sum256(packed.Bytes())
	return name, hex.EncodeToString(of[:])
}

// pathWithoutFootfall is the PATH without the directory that TestMain has added.
func pathWithoutFootfall() string {
	dirs := filepath.SplitList(os.Getenv("PATH"))
	return strings.Join(slices.DeleteFunc(dirs, func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, "footfall-gcov-11"))
		return err == nil
	}), ":")
}
