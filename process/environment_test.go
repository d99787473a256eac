//go:build linux

package process

import (
	"maps"
	"os/exec"
	"testing"

	"footfall/process/processtest"
)

// TestCurrentEnvironment: what a program does to its environment is seen, also when it has written over what the kernel knows.
func TestCurrentEnvironment(t *testing.T) {
	const source = `
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
extern char **environ;
int main(void)
{
	char *end = environ[1] + strlen(environ[1]), *old = environ[0];
	puts("ready");
	fflush(stdout), getchar();
	environ[0] = strdup(environ[0]), environ[1] = strdup(environ[1]);
	memset(old, 0, end - old);
	strcpy(old, "a title");
	puts("title");
	fflush(stdout), getchar();
	setenv("SECOND", "changed", 1);
	setenv("THIRD", "", 1);
	puts("changed");
	fflush(stdout), getchar();
	clearenv();
	puts("cleared");
	fflush(stdout), getchar();
}`
	for _, flags := range [][]string{{"-O"}, {"-O", "-static"}, {"-O", "-no-pie"}} {
		cmd := exec.Command(processtest.Compile(t, source, flags...))
		cmd.Env = []string{"FIRST=1", "SECOND=a=b"}
		p := processtest.Start(t, cmd)
		p.Expect("ready")
		o, err := Open(p.Pid())
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		m, _, err := o.Maps()
		if err != nil {
			t.Fatal(err)
		}
		e := o.Environ(m)
		if e == nil {
			t.Fatalf("%s: it is not found", flags)
		}
		started, err := o.Environment()
		if err != nil || len(started) == 0 {
			t.Fatalf("%s: %v, %v", flags, started, err)
		}
		changed := maps.Clone(started)
		changed["SECOND"], changed["THIRD"] = "changed", ""
		for _, now := range []struct {
			does string
			env  map[string]string
		}{{"", started}, {"title", started}, {"changed", changed}, {"cleared", nil}} {
			if now.does != "" {
				if got := p.Say(""); got != now.does {
					t.Fatal(got)
				}
				if o.Unchanged(e) {
					t.Errorf("%s, %s: unchanged", flags, now.does)
				}
			}
			var env map[string]string
			if env, e, err = o.CurrentEnvironment(e); err != nil || !maps.Equal(env, now.env) || (env == nil) != (now.env == nil) {
				t.Errorf("%s, %s: %v, %v; want %v", flags, now.does, env, err, now.env)
			}
			if now.env != nil && !o.Unchanged(e) {
				t.Errorf("%s, %s: changed again", flags, now.does)
			}
		}
		if over, err := o.Environment(); err != nil || len(over) != 0 {
			t.Errorf("%s: %v of what has been written over, %v", flags, over, err)
		}
	}
}
