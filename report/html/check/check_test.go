// Package check looks at pages of footfall report with a browser. It is a
// module of its own: the browser's protocol is needed by nothing else.
// scripts/test-html makes the pages and runs it.
package check

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

var (
	pages       = flag.String("pages", "", "the `DIR` of a report, of html=DIR")
	parts       = flag.String("parts", "", "one that has files/generated.c.html, of 100,000 lines")
	many        = flag.String("many", "", "one of 5,000 sources in 50 directories, the first of them \"d 0\", of which each misses one of two lines, and the last \"Größe\"")
	small       = flag.String("small", "", "a `FILE` of html=FILE.html whose sources are not compressed")
	packed      = flag.String("packed", "", "one whose sources are")
	compared    = flag.String("compared", "", "the `FILE` of footfall diff --output html of two versions of the sources, of which src/main.c lost never_called")
	axe         = flag.String("axe", "", "the `FILE` axe.min.js")
	live        = flag.String("live", "", "the `DIR` of a program that footfall live --serve shows at the address in DIR/said: whoever writes a or b to DIR/ask and reads DIR/answer has it call first or second, and the command that pages have does that with b")
	liveMany    = flag.String("live-many", "", "the same, of 5,000 sources in 50 directories, d0/source0.c to d49/source4999.c, of which source4999 runs whenever DIR/ask is written")
	fleet       = flag.String("fleet", "", "a `DIR` where DIR/said has the address of footfall serve, to which tests of releases 1.0 and 2.0 of the sources have been pushed")
	screenshots = flag.String("screenshots", "", "write what pages look like to `DIR`")
)

// browser is one for all tests, with a page for each.
var browser context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	if *pages == "" {
		fmt.Println("run scripts/test-html, which makes the pages first")
		os.Exit(1)
	}
	profile, err := os.MkdirTemp("", "footfall-chromium-")
	if err != nil {
		panic(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(profile), chromedp.WindowSize(1400, 900),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.WSURLReadTimeout(5*time.Minute))
	ctx, stopBrowser := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, _ = chromedp.NewContext(ctx)
	if err := chromedp.Do(ctx); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	browser = ctx
	status := m.Run()
	stopBrowser()
	os.RemoveAll(profile)
	os.Exit(status)
}

// A tab is a page of the browser. Whatever it asks of a network, and whatever
// it complains about, fails the test.
type tab struct {
	*testing.T
	context.Context
}

func open(t *testing.T, file, hash string, before ...chromedp.Action[chromedp.Void]) tab {
	t.Helper()
	path, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	return openURL(t, "file://"+path+hash, "file:", before...)
}

// openURL opens a page that may ask for what begins with ours.
func openURL(t *testing.T, address, ours string, before ...chromedp.Action[chromedp.Void]) tab {
	t.Helper()
	ctx, closeTab := chromedp.NewContext(browser)
	var mu sync.Mutex
	var complaints []string
	complain := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		complaints = append(complaints, fmt.Sprintf(format, args...))
	}
	err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			complain("console.%s", e.Type)
		case *runtime.EventExceptionThrown:
			complain("%s: %s", e.ExceptionDetails.Text, e.ExceptionDetails.Exception.Description)
		case *log.EventEntryAdded:
			complain("%s %s", e.Entry.Text, e.Entry.URL)
		case *network.EventRequestWillBeSent:
			if u := e.Request.URL; !strings.HasPrefix(u, ours) && !strings.HasPrefix(u, "data:") && !strings.HasPrefix(u, "blob:") {
				complain("request for %s", u)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(func() {
		stop()
		closeTab()
		for _, c := range complaints {
			t.Error(c)
		}
	})
	b := tab{t, ctx}
	b.run(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, network.Enable, network.EnableParams{})
		if err == nil {
			_, err = cdp.Call(ctx, t, log.Enable, cdp.Empty{})
		}
		return chromedp.Void{}, err
	})
	b.run(before...)
	b.run(chromedp.Navigate(address))
	return b
}

func (b tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.Context, actions...); err != nil {
		b.Fatal(err)
	}
}

// value evaluates an expression in the page.
func value[T any](b tab, expression string) (v T) {
	b.Helper()
	v, err := chromedp.Run(b.Context, chromedp.Evaluate[T](expression))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return v
}

// do runs a statement in the page.
func (b tab) do(statement string) {
	b.Helper()
	b.run(chromedp.Evaluate[chromedp.Void](statement))
}

func (b tab) is(expression, want string) {
	b.Helper()
	if got := value[string](b, "String("+expression+")"); got != want {
		b.Errorf("%s is %q, want %q", expression, got, want)
	}
}

// holds waits until an expression is true.
func (b tab) holds(expression string) {
	b.Helper()
	// A page that is being left has no answer; the next one has.
	var ok bool
	var err error
	for end := time.Now().Add(time.Minute); !ok && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		ok, err = chromedp.Run(b.Context, chromedp.Evaluate[bool]("Boolean("+expression+")"))
	}
	if !ok {
		b.Fatalf("%s: never true, %v", expression, err)
	}
}

// search types into the search field that "/" leads to.
func (b tab) search(text string) {
	b.Helper()
	b.press("/")
	b.is(`document.activeElement.type`, "search")
	b.do(`document.activeElement.value = ""`) // a person's "/" is not typed, the protocol's is
	b.press(text)
}

func (b tab) press(keys string) { b.Helper(); b.run(chromedp.KeyEvent(keys)) }

const files = `[...document.querySelectorAll("#tree tbody tr")].map(r => r.cells[0].innerText.trim()).join(" ")`

func TestIndex(t *testing.T) {
	b := open(t, filepath.Join(*pages, "index.html"), "")
	b.is(`document.querySelector("h1").textContent`, "project")
	all := value[string](b, files)
	for _, want := range []string{"src/", "main.c", "shapes.cc", `o'dd <b>&amp;"#%41.c`} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in the index: %s", want, all)
		}
	}
	b.is(`document.querySelectorAll("b b").length`, "0") // the name above is no element

	// Fold and unfold.
	b.run(chromedp.Click(`//tr[starts-with(@class,"d")]//button[.="src/"]`))
	if got := value[string](b, files); strings.Contains(got, "main.c") {
		t.Errorf("src/ does not fold: %s", got)
	}
	b.is(`document.querySelector("#tree tbody button").getAttribute("aria-expanded")`, "false")
	b.press("e")
	b.is(files, all)

	// A flat list, sorted by what it misses, by name, and back.
	b.press("v")
	flat := value[[]int](b, `[...document.querySelectorAll("#tree tbody tr")].map(r => +r.cells[2].textContent)`)
	for i := 1; i < len(flat); i++ {
		if flat[i-1] < flat[i] {
			t.Errorf("not sorted by missed lines: %v", flat)
		}
	}
	b.run(chromedp.Click(`//th/button[.="file"]`))
	names := value[[]string](b, `[...document.querySelectorAll("#tree tbody tr")].map(r => r.cells[0].innerText)`)
	for i, n := range names {
		if !strings.Contains(n, ".") || i > 0 && strings.ToLower(names[i-1]) > strings.ToLower(n) {
			t.Errorf("not a list of files by name: %q", names)
		}
	}
	b.run(chromedp.Click(`//th/button[@data-group="functions" and .="coverage"]`))
	b.is(`document.querySelector("th[aria-sort] button").dataset.group`, "functions")
	b.press("v")

	// Search.
	b.search("shap")
	b.holds(files + ` === "src/ shapes.cc"`)
	b.press(kb.Escape)
	b.holds(`document.querySelectorAll("#tree tbody tr").length > 3`)
	b.press("?")
	b.holds(`document.querySelector("#help").open`)
	b.press(kb.Escape)
	b.holds(`!document.querySelector("#help").open`)
	b.shots("index")
}

func TestIndexOfDirectory(t *testing.T) {
	b := open(t, filepath.Join(*pages, "index.html"), "#in=src/")
	if got := value[string](b, files); !strings.HasPrefix(got, "src/") || strings.Contains(got, "generated.c") {
		t.Errorf("the index of src/ has %s", got)
	}
}

// TestOverall is about what stands above the files: what is covered and missed, what is
// required, what became of it, and what was left out.
func TestOverall(t *testing.T) {
	b := open(t, filepath.Join(*pages, "index.html"), "")
	row := `document.querySelector(".sums tbody tr").innerText.trim().split(/\s+/)`
	b.is(row+`[0]`, "lines")
	b.is(row+`.slice(2, 4).reduce((a, b) => a + +b, 0) === +`+row+`[4]`, "true") // covered, missed, total
	b.is(`[...document.querySelectorAll(".required tbody tr")].map(r => r.innerText.replaceAll(/\s+/g, " ").replace(/ [\d.]+%.*(.)$/, " $1")).join()`, "branches of src ✗,lines of src/main.c ✓")
	b.is(`document.querySelectorAll(".trend svg g.m0 circle").length`, "3")
	b.is(`document.querySelector(".trend title").textContent.startsWith("2026-01-0")`, "true")
	b.is(`document.querySelector(".excluded summary").innerText.includes("1 function excluded")`, "true")
	b.do(`document.querySelector(".excluded").open = true`)
	b.is(`document.querySelector(".excluded tbody tr").innerText.startsWith("--exclude-functions leave")`, "true")
	b.is(`getComputedStyle(document.querySelector("#tree td.poor")).backgroundColor === getComputedStyle(document.body).backgroundColor`, "false")
}

// TestNarrow is about pages on a telephone: nothing is wider than the screen, and tables
// that are can be moved by themselves.
func TestNarrow(t *testing.T) {
	for _, file := range []string{filepath.Join(*pages, "index.html"), filepath.Join(*pages, "functions.html"),
		filepath.Join(*pages, "files", "src~main.c.html"), filepath.Join(*pages, "files", "src~shapes.cc.html"), *small, *compared} {
		b := open(t, file, "", chromedp.EmulateViewport(420, 900))
		b.do(`document.querySelectorAll("details").forEach(d => d.open = true)`)
		if width := value[int](b, `document.documentElement.scrollWidth`); width > 420 {
			t.Errorf("%s is %d wide", file, width)
		}
	}
	b := open(t, filepath.Join(*pages, "index.html"), "", chromedp.EmulateViewport(420, 900))
	b.is(`document.querySelector("#tree").offsetWidth <= document.querySelector("#tree").parentElement.clientWidth`, "true")
	headings := `[...document.querySelectorAll("#tree thead th")].filter(th => th.getClientRects().length).map(th => th.classList.contains("bar") ? "" : getComputedStyle(th.firstChild, "::before").content + th.textContent)`
	if got := value[[]string](b, headings); len(got) < 3 || !strings.Contains(got[1], "lines") {
		t.Errorf("headings %q", got)
	}
}

// TestCompared is about two versions side by side.
func TestCompared(t *testing.T) {
	b := open(t, *compared, "")
	b.is(`document.querySelector(".sums tbody th").textContent`, "lines")
	b.is(`[...document.querySelectorAll(".compared a")].some(a => a.textContent === "src/main.c")`, "true")
	b.is(`[...document.querySelectorAll(".sides .lost")].some(r => r.cells[1].textContent !== "0" && r.cells[4].textContent === "0" && r.cells[2].textContent.includes("sum += i") && r.cells[6].textContent.trim() === "LBC")`, "true")
	b.is(`[...document.querySelectorAll(".sides .gone")].some(r => r.cells[2].textContent.includes("long total") || r.cells[6].textContent.trim() === "DCB")`, "true")
	b.press("n")
	b.is(`document.querySelectorAll(".here").length`, "1")
	b.run(chromedp.Click(`//table[@class="compared"]//th/button[.="LBC"]`))
	b.is(`document.querySelector(".compared th[aria-sort]").textContent`, "LBC")
	b.shots("compared")
}

// Of a large tree the files come as data.
func TestIndexOfManySources(t *testing.T) {
	b := open(t, filepath.Join(*many, "index.html"), "")
	b.holds(files + `.startsWith("/nosuch/ Größe/ d 0/ d1/ ")`)
	b.holds(`document.querySelectorAll("#tree tbody tr").length === 52`)
	b.run(chromedp.Click(`//tr//button[.="d 0/"]`))
	b.holds(files + `.startsWith("/nosuch/ Größe/ d 0/ source1.c source10.c ")`)
	b.holds(`[...document.querySelectorAll("#tree tbody tr")][3].innerText.trim().split(/\s+/).join(" ") === "source1.c 1 50.0% 1/2"`)
	b.press("e")
	b.holds(files + ` === "/nosuch/"`)
	b.press("e")
	b.holds(`document.querySelectorAll("#tree tbody tr").length === 5000`) // as many as are shown
	b.press("e")

	b.search("SOURCE4999")
	b.holds(files + ` === "/nosuch/ d49/ source4999.c"`)
	b.press(kb.Escape)
	b.search("größe")
	b.holds(files + ` === "/nosuch/ Größe/ ein +.c"`)
	for _, file := range []string{"d 0/source1.c", "source4999.c", "größe"} {
		b := open(t, filepath.Join(*many, "index.html"), "#in="+file)
		link := value[string](b, `document.querySelector("#tree tbody a").href`)
		path, err := url.PathUnescape(strings.TrimPrefix(link, "file://"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

func TestFunctions(t *testing.T) {
	b := open(t, filepath.Join(*pages, "functions.html"), "")
	if !value[bool](b, `document.body.innerText.includes("never_called") && document.body.innerText.includes("odd")`) {
		t.Error("functions are missing")
	}
	b.search("never_c")
	b.holds(`document.querySelectorAll("tbody tr:not([hidden])").length === 1`)
	b.run(chromedp.Click("tbody tr:not([hidden]) a"))
	b.holds(`location.hash === "#L21"`)
	b.holds(`document.querySelector(".chosen").textContent.includes("never_called")`)
}

func TestSource(t *testing.T) {
	b := open(t, filepath.Join(*pages, "files", "src~main.c.html"), "#L22")
	b.is(`[...document.querySelectorAll(".chosen")].map(e => e.textContent.trim())`, "0    int sum = 0;")
	b.is(`getComputedStyle(document.querySelector(".chosen"), "::before").content`, "counter(list-item)")
	b.is(`getComputedStyle(document.querySelector(".chosen")).display`, "list-item")
	b.is(`getComputedStyle(document.querySelector(".code ol")).contentVisibility`, "visible") // or lines were numbered from 1

	// From gap to gap, round the end.
	here := `document.querySelector(".here").textContent`
	b.do("scrollTo(0, 0)")
	seen := map[string]bool{}
	count := value[int](b, `parseInt(document.querySelector(".tools output").textContent)`)
	b.press("n")
	first := value[string](b, here)
	for range count {
		seen[value[string](b, here)] = true
		b.press("n")
	}
	if len(seen) != count || count < 2 {
		t.Errorf("n leads to %d places of %d", len(seen), count)
	}
	b.is(here, first)
	b.press("p")
	b.press("n")
	b.is(here, first)
	b.press("b")
	b.is(`document.querySelector(".here > b").className[0]`, "p")

	// Outcomes of that line, and of all.
	b.press("o")
	b.is(`document.querySelector(".here details").open`, "true")
	if text := value[string](b, `document.querySelector(".here details").innerText`); !strings.Contains(text, "never") {
		t.Errorf("the outcomes of a line that ran in part are %q", text)
	}
	b.press("O")
	b.press("O")
	b.is(`document.querySelectorAll("details[open]").length`, "0")

	// Functions, an address, a range.
	b.press("f")
	b.is(`document.querySelector(".functions").open`, "true")
	b.run(chromedp.Click(`//table//a[.="never_called"]`))
	b.holds(`location.hash === "#L21"`)
	b.do(`location.hash = "#L23-L25"`)
	b.holds(`document.querySelectorAll(".chosen").length === 3`)
	b.do(`{
		const box = document.querySelector("#L8").getBoundingClientRect();
		document.querySelector("#L8").dispatchEvent(new MouseEvent("click", {bubbles: true, clientX: box.left + 5, clientY: box.top + 5}));
	}`)
	b.holds(`location.hash === "#L8"`)

	if !value[bool](b, `(() => { const c = document.querySelector("#map canvas"); return c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some(x => x) })()`) {
		t.Error("the map is empty")
	}
	before := value[string](b, `getComputedStyle(document.body).backgroundColor`)
	b.press("t")
	if value[string](b, `getComputedStyle(document.body).backgroundColor`) == before {
		t.Error("t does not change the theme")
	}
	b.press("t")
	b.press("]")
	b.holds(`document.title.startsWith("o'dd") || document.title.startsWith("shapes.cc")`)
	b.holds(`document.querySelector(".tools") !== null`) // the script has run
	b.press("u")
	b.holds(`document.querySelector("#tree") !== null`)
}

func TestInstances(t *testing.T) {
	b := open(t, filepath.Join(*pages, "files", "src~shapes.cc.html"), "")
	b.do(`document.querySelectorAll(".f").forEach(d => d.open = true)`)
	if text := value[string](b, `document.querySelector(".code").textContent`); !strings.Contains(text, "shapes::largest<int>") || !strings.Contains(text, "4 instances, 2 never called") {
		t.Errorf("instances of a template: %s", text)
	}
	b.shots("source")
}

func TestParts(t *testing.T) {
	b := open(t, filepath.Join(*parts, "files", "generated.c.html"), "#L90002")
	b.holds(`document.querySelector(".chosen")?.textContent.includes("// line 90002")`)
	b.is(`/^\d+ gaps?, \d+ in other parts$/.test(document.querySelector(".tools output").textContent)`, "true")
	all := `[...document.querySelectorAll(".parts")[0].querySelectorAll("small")].reduce((n, s) => n + parseInt(s.textContent), 0)`
	b.is(all+` === document.querySelector(".tools output").textContent.match(/\d+/g).reduce((n, s) => n + +s, 0)`, "true")
}

var noScript = chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
	_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	return err
})

// TestNoScript reads pages without JavaScript.
func TestNoScript(t *testing.T) {
	for _, c := range []struct{ file, hash, want string }{
		{filepath.Join(*pages, "index.html"), "", "main.c"},
		{filepath.Join(*pages, "files", "src~main.c.html"), "", "static int never_called(int n)"},
		{*small, "", "main.c"},
		{*small, "#src~main.c:L21", "static int never_called(int n)"},
		{*packed, "", "need JavaScript"},
	} {
		b := open(t, c.file, c.hash, noScript)
		b.holds(fmt.Sprintf("document.body.innerText.includes(%q)", c.want)) // once it is laid out
	}
}

func TestSinglePage(t *testing.T) {
	for _, file := range []string{*small, *packed} {
		b := open(t, file, "")
		b.is(`getComputedStyle(document.querySelector("section.file")).display`, "none")
		b.search("main.c")
		b.press(kb.Enter)
		visible := `[...document.querySelectorAll("section.file")].filter(s => s.getClientRects().length).map(s => s.id).join()`
		b.holds(visible + ` === "src~main.c"`)
		b.holds(`document.querySelector("#src\\~main\\.c .code li") !== null`)
		b.holds(`document.querySelector("#src\\~main\\.c .tools") !== null`)
		b.press("n")
		b.holds(`document.querySelector(".here > u") !== null`)
		b.press("]")
		b.holds(visible + ` !== "src~main.c"`)
		b.do(`location.hash = "#src~main.c:L24"`)
		b.holds(`document.querySelector(".chosen")?.textContent.includes("i & 1")`)
		b.press("u")
		b.holds(`document.querySelector("#overview").getClientRects().length === 1`)
	}
}

// TestLinks follows every link of every page.
func TestLinks(t *testing.T) {
	links := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	content := map[string]string{}
	read := func(name string) string {
		if _, ok := content[name]; !ok {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Error(err)
			}
			content[name] = string(data)
		}
		return content[name]
	}
	all := []string{*small}
	for _, pattern := range []string{"*.html", "files/*.html"} {
		for _, dir := range []string{*pages, *parts} {
			found, _ := filepath.Glob(filepath.Join(dir, pattern))
			all = append(all, found...)
		}
	}
	identifiers := regexp.MustCompile(` id="?([^" >]*)`)
	known := map[string]map[string]bool{}
	ids := func(name string) map[string]bool {
		if known[name] == nil {
			known[name] = map[string]bool{}
			for _, m := range identifiers.FindAllStringSubmatch(read(name), -1) {
				known[name][m[1]] = true
			}
		}
		return known[name]
	}
	n := 0
	for _, name := range all {
		for _, m := range links.FindAllStringSubmatch(read(name), -1) {
			n++
			target, id, _ := strings.Cut(strings.ReplaceAll(m[1], "&amp;", "&"), "#")
			file := name
			if target != "" {
				file = filepath.Join(filepath.Dir(name), target)
			}
			if id != "" && !strings.HasPrefix(id, "in=") && !ids(file)[id] {
				t.Errorf("%s: link to %s leads nowhere", name, m[1])
			}
			if len(read(file)) > 3e6 {
				t.Errorf("%s has %d bytes", file, len(read(file)))
			}
		}
	}
	if n < 50 {
		t.Errorf("only %d links", n)
	}
}

type violation struct {
	ID     string   `json:"id"`
	Impact string   `json:"impact"`
	Help   string   `json:"help"`
	Nodes  []string `json:"nodes"`
}

// TestAccessible asks axe-core, in both themes.
func TestAccessible(t *testing.T) {
	program, err := os.ReadFile(*axe)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, hash string }{
		{"index.html", ""}, {"functions.html", ""}, {"files/src~main.c.html", "#L22"}, {"files/src~shapes.cc.html", ""}, {*compared, ""},
	} {
		file := filepath.Join(*pages, c.name)
		if c.name == *compared {
			file = *compared
		}
		b := open(t, file, c.hash)
		b.accessible(c.name, string(program))
	}
}

// accessible asks axe-core about a page, in both themes.
func (b tab) accessible(name, axe string) {
	b.Helper()
	b.do(`document.querySelectorAll("details").forEach(d => d.open = true)`)
	b.do(axe)
	for _, theme := range []string{"light", "dark"} {
		b.do(`document.documentElement.dataset.theme = "` + theme + `"`)
		found, err := chromedp.Run(b.Context, chromedp.Evaluate[[]violation](`axe.run({preload: false}).then(r => r.violations.map(v => ({id: v.id, impact: v.impact, help: v.help,
			nodes: v.nodes.slice(0, 3).map(n => n.html + " " + n.failureSummary)})))`,
			func(p *runtime.EvaluateParams) { p.AwaitPromise = new(true) }))
		if err != nil {
			b.Fatal(err)
		}
		for _, v := range found {
			if v.Impact == "serious" || v.Impact == "critical" {
				b.Errorf("%s, %s: %s (%s): %s\n%s", name, theme, v.ID, v.Impact, v.Help, strings.Join(v.Nodes, "\n"))
			} else {
				b.Logf("%s, %s: %s (%s): %s", name, theme, v.ID, v.Impact, v.Help)
			}
		}
	}
}

// shots writes what the page looks like.
func (b tab) shots(name string) {
	b.Helper()
	if *screenshots == "" {
		return
	}
	save := func(kind string, data []byte) {
		if err := os.WriteFile(filepath.Join(*screenshots, name+"-"+kind), data, 0o666); err != nil {
			b.Error(err)
		}
	}
	for _, kind := range []string{"light", "dark", "narrow"} {
		theme := kind
		if kind == "narrow" {
			theme = "light"
			b.run(chromedp.EmulateViewport(480, 900))
		}
		b.do(`document.documentElement.dataset.theme = "` + theme + `"; dispatchEvent(new Event("resize"))`)
		picture, err := chromedp.Run(b.Context, chromedp.CaptureScreenshot())
		if err != nil {
			b.Fatal(err)
		}
		save(kind+".png", picture)
	}
	data, err := chromedp.Run(b.Context, chromedp.PrintToPDF())
	if err != nil {
		b.Fatal(err)
	}
	save("print.pdf", data)
}
