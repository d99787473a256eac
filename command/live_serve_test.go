//go:build linux

package command

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"
)

// browse is a browser for scripts that look at pages of live --serve:
//
//	browse [flags] SAID PATH
//
// SAID is what footfall has said, with the address, for which it waits. It prints the page at
// PATH.
func browse() {
	if err := browseAs(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "browse:", err)
		os.Exit(1)
	}
}

func browseAs(args []string) error {
	f := flag.NewFlagSet("browse", flag.ContinueOnError)
	until := f.String("until", "", "load the page again until it fits `REGEXP`")
	press := f.Bool("press", false, "PATH is where a form of the index leads: send it, and print what comes")
	events := f.Int("events", 0, "print so many events about PATH")
	if err := f.Parse(args); err != nil || f.NArg() != 2 {
		return errors.New("usage: browse [flags] SAID PATH")
	}
	address, err := addressIn(f.Arg(0))
	if err != nil {
		return err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	b := browser{http.Client{Jar: jar, Timeout: time.Minute}, address.Scheme + "://" + address.Host}
	index, err := b.read(b.Get(address.String()))
	if err != nil {
		return err
	}
	switch path := f.Arg(1); {
	case *events > 0:
		return b.events(path, *events)
	case *press:
		token := regexp.MustCompile(`name=token value="([^"]*)"`).FindStringSubmatch(index)
		if token == nil {
			return errors.New("the index has no form")
		}
		page, err := b.read(b.PostForm(b.origin+path, url.Values{"token": {token[1]}}))
		fmt.Print(page)
		return err
	default:
		wanted := regexp.MustCompile(*until)
		for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			page, err := b.read(b.Get(b.origin + path))
			if err != nil {
				return err
			}
			if wanted.MatchString(page) {
				fmt.Print(page)
				return nil
			}
			if time.Now().After(end) {
				return fmt.Errorf("%s never fits %q:\n%s", path, *until, page)
			}
		}
	}
}

// addressIn waits for an address in a file.
func addressIn(name string) (*url.URL, error) {
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		said, err := os.ReadFile(name)
		if found := regexp.MustCompile(`http://\S+`).Find(said); found != nil {
			return url.Parse(string(found))
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("no address in %q: %v", said, err)
		}
	}
}

type browser struct {
	http.Client
	origin string
}

func (b *browser) read(r *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", r.Status, body)
	}
	return string(body), err
}

// events prints the data of events.
func (b *browser) events(page string, n int) error {
	r, err := b.Get(b.origin + "/events?since=0&page=" + url.QueryEscape(strings.TrimPrefix(page, "/")))
	if err != nil {
		return err
	}
	defer r.Body.Close()
	lines := bufio.NewScanner(r.Body)
	lines.Buffer(nil, 1<<24)
	for n > 0 && lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			fmt.Println(data)
			n--
		}
	}
	return lines.Err()
}
