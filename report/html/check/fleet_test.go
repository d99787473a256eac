package check

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestFleet is about the pages of a fleet: each can be used by all, in both themes, and is no wider than a telephone.
func TestFleet(t *testing.T) {
	program, err := os.ReadFile(*axe)
	if err != nil {
		t.Fatal(err)
	}
	said, err := os.ReadFile(filepath.Join(*fleet, "said"))
	if err != nil {
		t.Fatal(err)
	}
	server := regexp.MustCompile(`http://[0-9.:]+`).FindString(string(said))
	for _, page := range []string{
		"/", "/never-ran", "/never-ran?by=file&in-group=src/main.c", "/changed?since=1.0", "/who?of=main", "/by", "/by?by=file", "/trend", "/store",
		"/coverage/release=2.0/files/src~main.c.html",
	} {
		b := openURL(t, server+page, server, chromedp.EmulateViewport(420, 900))
		b.do(`document.querySelectorAll("details").forEach(d => d.open = true)`)
		if width := value[int](b, `document.documentElement.scrollWidth`); width > 420 {
			t.Errorf("%s is %d wide", page, width)
		}
		b.run(chromedp.EmulateViewport(1200, 900))
		b.accessible(page, string(program))
		if !strings.Contains(page, "=") {
			b.shots("fleet-" + strings.NewReplacer("/", "", "?", "-").Replace(page))
		}
	}
	// The text that was sent stands beside its counts, and in the page of the other release there are counts only.
	with, without := openURL(t, server+"/coverage/release=2.0/files/src~main.c.html", server), openURL(t, server+"/coverage/release=1.0/files/src~main.c.html", server)
	with.is(`document.body.textContent.includes("int main(")`, "true")
	without.is(`document.body.textContent.includes("int main(")`, "false")
	without.is(`document.body.textContent.includes("Here are counts only: sources are not on this server.")`, "true")
	with.shots("fleet-source")
	// From release to what never ran, and to its functions by a link of the table.
	b := openURL(t, server+"/", server)
	b.run(chromedp.Click(`//tr[th="2.0"]//a[.="never ran"]`))
	b.holds(`document.querySelector("h2")?.textContent === "Never ran"`)
	b.is(`document.querySelector("[name=release]").value`, "2.0")
	b.run(chromedp.Click(`//a[.="by file"]`), chromedp.Click(`//a[.="src/main.c"]`))
	b.holds(`document.querySelector("#functions-title")?.textContent === "Functions in src/main.c"`)
	b.is(`[...document.querySelectorAll("#functions tbody tr")].every(r => r.cells[7].textContent.startsWith("src/main.c:"))`, "true")
	b.is(`[...document.querySelectorAll("#functions tbody th")].map(h => h.textContent).join().includes("never_called")`, "true")
}
