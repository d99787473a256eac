package check

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// These tests are about pages that are alive, of footfall live --serve.

// A served program is shown at an address.
type served struct {
	*testing.T
	dir, entrance, origin string // entrance is the address with the key
}

func servedBy(t *testing.T, dir string) served {
	t.Helper()
	said, err := os.ReadFile(filepath.Join(dir, "said"))
	if err != nil {
		t.Fatal(err)
	}
	entrance := regexp.MustCompile(`http://\S+`).FindString(string(said))
	u, err := url.Parse(entrance)
	if err != nil || entrance == "" {
		t.Fatalf("there is no address in %q", said)
	}
	return served{t, dir, entrance, "http://" + u.Host}
}

// open opens a page, by the key and the cookie that it gives.
func (s served) open(path string, before ...chromedp.Action[chromedp.Void]) tab {
	s.Helper()
	b := openURL(s.T, s.entrance, s.origin, before...)
	b.is(`location.href`, s.origin+"/") // the key is gone
	if path != "" {
		b.run(chromedp.Navigate(s.origin + "/" + path))
	}
	return b
}

// ask has the program call a function.
func (s served) ask(what string) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "ask"), []byte(what), 0); err != nil {
		s.Fatal(err)
	}
	if _, err := os.ReadFile(filepath.Join(s.dir, "answer")); err != nil {
		s.Fatal(err)
	}
}

const (
	word     = `document.querySelector("[data-live=word]").textContent`
	recent   = `document.querySelector("[data-live=recent]").innerText`
	hot      = `document.querySelector("[data-live=hot]").innerText`
	covered  = `+document.querySelector(".sums tbody tr").cells[3].textContent`
	inTree   = `[...document.querySelectorAll("#tree tbody tr")].find(r => r.cells[0].innerText.trim() === "server.c").cells[4].textContent`
	lineOf   = `[...document.querySelectorAll(".code li")].find(li => li.textContent.includes(%q))`
	firstRan = `/^\d+$/.test(%s.querySelector("b")?.textContent)`
)

// submit presses the button in the details of a summary, and waits for the page that comes.
func (b tab) submit(summary, button string) {
	b.Helper()
	b.do(`self.old = true`)
	b.run(chromedp.Click(`//summary[starts-with(., "`+summary+`")]`), chromedp.Click(`//button[.="`+button+`"]`))
	b.holds(`self.old === undefined && document.readyState === "complete"`)
}

func (b tab) zero() {
	b.Helper()
	b.submit("start from zero", "Start from zero")
	b.holds(`document.querySelector("[data-live=said]")?.textContent.includes("counts start from zero")`)
}

func TestLive(t *testing.T) {
	s := servedBy(t, *live)
	b := s.open("")
	b.holds(word + ` === "live"`)
	b.zero()
	other, source := s.open(""), s.open("files/server.c.html")
	for _, b := range []tab{b, other, source} {
		b.holds(word + ` === "live"`)
		b.do(`self.before = true`) // until it is loaded again
	}
	before := value[int](b, covered)
	title := value[string](b, `document.title`)
	first := fmt.Sprintf(lineOf, "static void first(void)")
	source.is(first+`.querySelector("u")?.textContent`, "0")
	gaps := value[string](source, `document.querySelector(".tools output").textContent`)

	s.ask("a")
	for _, b := range []tab{b, other} {
		b.holds(recent + `.includes("first")`)
		b.holds(covered + fmt.Sprintf(` > %d`, before))
		b.is(inTree+`.split("/")[0] === `+`String(`+covered+`)`, "true")
		b.is(`document.title`+fmt.Sprintf(` !== %q`, title), "true")
		b.is(`document.querySelector("[data-live=recent] a").getAttribute("href").startsWith("files/server.c.html#L")`, "true")
	}
	source.holds(fmt.Sprintf(firstRan, first))
	source.is(first+`.querySelector("b").textContent`, "1")
	source.is(`document.querySelector(".tools output").textContent`+fmt.Sprintf(` !== %q`, gaps), "true")
	s.ask("a")
	source.holds(first + `.querySelector("b").textContent === "2"`)
	// What is hot in this second may be nothing in the next.
	for range 20 {
		s.ask("a")
	}
	source.holds(first + `.querySelector("b").textContent === "22"`)

	// What is unfolded stays so.
	choice := fmt.Sprintf(lineOf, "switch (c)")
	source.do(choice + `.querySelector("details").open = true`)
	s.ask("a")
	source.holds(first + `.querySelector("b").textContent === "23"`)
	source.is(choice+`.querySelector("details").open`, "true")
	for _, b := range []tab{b, other, source} {
		b.is(`self.before`, "true")
	}

	// Sorted and searched, an index goes on.
	b.search("server")
	b.run(chromedp.Click(`//th/button[@data-group="lines" and .="covered"]`))
	s.ask("b")
	b.holds(recent + `.includes("second")`)
	b.is(inTree+`.split("/")[0] === `+`String(`+covered+`)`, "true")

	// From zero, in all of them.
	b.zero()
	b.holds(covered + ` === 0 || ` + recent + `.includes("nothing")`)
	source.holds(first + `.querySelector("u") !== null`)
	other.holds(recent + `.includes("nothing")`)
}

func TestLiveCommand(t *testing.T) {
	s := servedBy(t, *live)
	b := s.open("")
	b.submit("run sh", "Run it")
	b.holds(`document.querySelector(".ran")?.innerText.includes("second")`)
	b.is(`document.querySelector(".ran").innerText.includes("first")`, "false")
	b.is(`document.querySelector(".output pre").textContent.trim()`, `the answer is b <&"`)
	b.is(`document.querySelector(".command").innerText.includes("exit status 0")`, "true")
	b.run(chromedp.EmulateViewport(420, 900))
	if width := value[int](b, `document.documentElement.scrollWidth`); width > 420 {
		t.Errorf("the page of a command is %d wide", width)
	}
	b.run(chromedp.EmulateViewport(1400, 900))
	b.shots("live-command")
	b.run(chromedp.Click(`//table[@class="ran"]//a[.="second"]`))
	b.holds(`document.querySelector(".chosen")?.textContent.includes("second")`)
	b.run(chromedp.Click(`//a[.="‹ live"]`))
	b.holds(`document.querySelector("[data-live=hot]") !== null`)
	b.holds(word + ` === "live"`)
}

// TestLiveNoScript reads, and presses a button, without JavaScript.
func TestLiveNoScript(t *testing.T) {
	s := servedBy(t, *live)
	s.ask("a")
	b := s.open("", noScript)
	b.holds(`document.body.innerText.includes("Reload this page")`)
	b.holds(`document.querySelector("#tree").innerText.includes("server.c")`)
	b.zero()
	b.run(chromedp.Navigate(s.origin + "/files/server.c.html"))
	b.holds(fmt.Sprintf(lineOf, "static void first(void)") + `.querySelector("u") !== null`)
	s.ask("a")
	ran := fmt.Sprintf(lineOf, "static void first(void)") + `?.querySelector("b")?.textContent === "1"`
	for end := time.Now().Add(time.Minute); !value[bool](b, ran); {
		if time.Now().After(end) {
			t.Fatal("what ran is not in the page")
		}
		b.run(chromedp.Navigate(s.origin + "/files/server.c.html"))
	}
}

func TestLiveLooks(t *testing.T) {
	program, err := os.ReadFile(*axe)
	if err != nil {
		t.Fatal(err)
	}
	s := servedBy(t, *live)
	for _, page := range []string{"index.html", "functions.html", "files/server.c.html"} {
		narrow := s.open(page, chromedp.EmulateViewport(420, 900))
		narrow.do(`document.querySelectorAll("details").forEach(d => d.open = true)`)
		if width := value[int](narrow, `document.documentElement.scrollWidth`); width > 420 {
			t.Errorf("%s is %d wide", page, width)
		}
		b := s.open(page)
		b.holds(word + ` === "live"`)
		s.ask("a")
		b.accessible(page, string(program))
		b.do(`document.querySelectorAll("details").forEach(d => d.open = false)`)
		b.shots("live-" + filepath.Base(page))
	}
}

// TestLiveMany is about a tree so large that its index is data.
func TestLiveMany(t *testing.T) {
	s := servedBy(t, *liveMany)
	b := s.open("")
	b.holds(word + ` === "live"`)
	row := `[...document.querySelectorAll("#tree tbody tr")].find(r => r.cells[0].innerText.trim() === %q)?.cells[4].textContent`
	b.search("source4999")
	b.holds(fmt.Sprintf(row, "source4999.c") + ` !== undefined`)
	before := value[string](b, fmt.Sprintf(row, "source4999.c"))
	if before[0] != '0' {
		t.Fatalf("source4999.c has run: %s", before)
	}
	s.ask("x")
	b.holds(fmt.Sprintf(row, "source4999.c") + `[0] !== "0"`)
	b.holds(recent + `.includes("f4999")`)
	b.holds(fmt.Sprintf(row, "d49/") + ` !== undefined`)
	b.shots("live-many")
	b.run(chromedp.Click(`//tr[contains(.,"source4999.c")]//a`))
	b.holds(`document.querySelector(".code b") !== null`)
}
