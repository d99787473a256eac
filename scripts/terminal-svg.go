//go:build ignore

// Terminal-svg records a terminal as an animated SVG image: it types what a script says into a
// shell within tmux, and draws each state of the screen.
//
//	go run scripts/terminal-svg.go WIDTHxHEIGHT >FILE.svg <SCRIPT
//
// Lines of SCRIPT are
//
//	run TEXT        into the shell, before the recording begins
//	type TEXT       a letter after the other, and Enter
//	key NAME        a key, as tmux names it
//	wait TIME       such as 1.5s
package main

import (
	"bufio"
	"fmt"
	"html"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := record(); err != nil {
		fmt.Fprintln(os.Stderr, "terminal-svg:", err)
		os.Exit(1)
	}
}

// A frame is what the screen shows from a time on: its lines, with the terminal's sequences for colours.
type frame struct {
	at    time.Duration
	lines []string
}

type recorder struct {
	socket        string
	width, height int
	recording     bool
	now           time.Duration
	frames        []frame
}

func record() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: terminal-svg WIDTHxHEIGHT")
	}
	r := &recorder{socket: fmt.Sprintf("terminal-svg-%d", os.Getpid())}
	if _, err := fmt.Sscanf(os.Args[1], "%dx%d", &r.width, &r.height); err != nil {
		return err
	}
	if _, err := r.tmux("-f", "/dev/null", "new-session", "-d", "-x", strconv.Itoa(r.width), "-y", strconv.Itoa(r.height), "env PS1='$ ' bash --norc --noprofile"); err != nil {
		return err
	}
	defer r.tmux("kill-server")
	_, _ = r.tmux("set", "-g", "status", "off")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if err := r.do(lines.Text()); err != nil {
			return fmt.Errorf("%s: %w", lines.Text(), err)
		}
	}
	r.draw()
	return lines.Err()
}

func (r *recorder) tmux(args ...string) (string, error) {
	cmd := exec.Command("tmux", append([]string{"-L", r.socket, "-u"}, args...)...)
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "LC_ALL=C.UTF-8", "COLORTERM=truecolor")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return string(out), err
}

func (r *recorder) do(line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "run":
		if _, err := r.tmux("send-keys", "-l", rest+"; clear\n"); err != nil {
			return err
		}
		time.Sleep(700 * time.Millisecond)
		return nil
	case "type":
		r.recording = true
		for _, letter := range rest {
			if _, err := r.tmux("send-keys", "-l", string(letter)); err != nil {
				return err
			}
			if err := r.wait(45 * time.Millisecond); err != nil {
				return err
			}
		}
		if _, err := r.tmux("send-keys", "Enter"); err != nil {
			return err
		}
		return r.wait(300 * time.Millisecond)
	case "key":
		if _, err := r.tmux("send-keys", rest); err != nil {
			return err
		}
		return r.wait(300 * time.Millisecond)
	case "wait":
		d, err := time.ParseDuration(rest)
		if err != nil {
			return err
		}
		return r.wait(d)
	}
	return fmt.Errorf("unknown")
}

// wait looks at the screen for that time, and keeps each state. What looking takes is not part of the time.
func (r *recorder) wait(d time.Duration) error {
	const tick = 45 * time.Millisecond
	for end := r.now + d; r.now < end; r.now += tick {
		time.Sleep(tick)
		out, err := r.tmux("capture-pane", "-p", "-e")
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
		if n := len(r.frames); n == 0 || strings.Join(r.frames[n-1].lines, "\n") != strings.Join(lines, "\n") {
			r.frames = append(r.frames, frame{r.now, lines})
		}
	}
	return nil
}

const (
	letterWidth = 8.0
	lineHeight  = 17
	margin      = 12
	back, text  = "#14181d", "#d5dae0"
)

// draw writes the image. Frames are below each other, and the picture moves from one to the next.
func (r *recorder) draw() {
	w, h := int(float64(r.width)*letterWidth)+2*margin, r.height*lineHeight+2*margin
	total := r.now + 1500*time.Millisecond
	fmt.Printf(`<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 %d %d" width="%d" height="%d">`+"\n", w, h, w, h)
	fmt.Printf("<style>text{font:13.3px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:%s;white-space:pre}.b{font-weight:bold}.d{opacity:.6}\n", text)
	fmt.Println("@keyframes play{")
	for i, f := range r.frames {
		fmt.Printf("%.3f%%{transform:translateY(%dpx)}\n", 100*f.at.Seconds()/total.Seconds(), -i*h)
	}
	fmt.Printf("100%%{transform:translateY(%dpx)}}\n", -(len(r.frames)-1)*h)
	fmt.Printf("#all{animation:play %.2fs steps(1,end) infinite}\n", total.Seconds())
	// Who wants no movement sees the end.
	fmt.Printf("@media (prefers-reduced-motion:reduce){#all{animation:none;transform:translateY(%dpx)}}</style>\n", -(len(r.frames)-1)*h)
	fmt.Printf(`<rect width="100%%" height="100%%" rx="6" fill="%s"/>`+"\n", back)
	rows := make(map[string]int) // what is drawn once
	var defs, body strings.Builder
	for i, f := range r.frames {
		for j, line := range f.lines {
			if strings.TrimSpace(line) == "" {
				continue
			}
			n, known := rows[line]
			if !known {
				n = len(rows)
				rows[line] = n
				fmt.Fprintf(&defs, `<g id="r%d">%s</g>`+"\n", n, row(line))
			}
			fmt.Fprintf(&body, `<use xlink:href="#r%d" y="%d"/>`, n, i*h+margin+(j+1)*lineHeight-4)
		}
		body.WriteByte('\n')
	}
	fmt.Printf("<defs>%s</defs>\n<g id=\"all\">%s</g>\n</svg>\n", defs.String(), body.String())
}

var palette = []string{"#3b4048", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d5dae0", "#7f848e", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#ffffff"}

// A style is how letters look. Colours are empty where they are the terminal's own.
type style struct {
	fore, back          string
	bold, dim, reversed bool
}

// row draws a line: a text for each run of letters of one style, at its place, whatever width the font gives
// to what is no ASCII.
func row(line string) string {
	var b strings.Builder
	var s, drawn style
	var run []rune
	column, from := 0, 0
	flush := func() {
		if len(run) > 0 {
			drawRun(&b, drawn, string(run), from)
		}
		run = run[:0]
	}
	for rest := line; rest != ""; {
		if sequence, after, ok := cutSequence(rest); ok {
			s.apply(sequence)
			rest = after
			continue
		}
		letter := []rune(rest)[0]
		rest = rest[len(string(letter)):]
		if len(run) == 0 || s != drawn || (letter < 128) != (run[len(run)-1] < 128) {
			flush()
			drawn, from = s, column
		}
		run = append(run, letter)
		column++
	}
	flush()
	return b.String()
}

func drawRun(b *strings.Builder, s style, letters string, column int) {
	fore, behind := s.fore, s.back
	if s.reversed {
		fore, behind = behind, fore
		if fore == "" {
			fore = back
		}
		if behind == "" {
			behind = text
		}
	}
	x := margin + float64(column)*letterWidth
	width := float64(len([]rune(letters))) * letterWidth
	if behind != "" {
		fmt.Fprintf(b, `<rect x="%g" y="-13" width="%g" height="%d" fill="%s"/>`, x, width, lineHeight, behind)
	}
	if strings.TrimSpace(letters) == "" {
		return
	}
	class := ""
	if s.bold {
		class = ` class="b"`
	} else if s.dim {
		class = ` class="d"`
	}
	fill := ""
	if fore != "" {
		fill = fmt.Sprintf(` fill="%s" style="fill:%s"`, fore, fore)
	}
	fmt.Fprintf(b, `<text x="%g" textLength="%g"%s%s>%s</text>`, x, width, class, fill, html.EscapeString(letters))
}

// cutSequence takes an escape sequence for colours from the beginning of a text.
func cutSequence(s string) (parameters, rest string, ok bool) {
	if !strings.HasPrefix(s, "\x1b[") {
		return "", s, false
	}
	return strings.Cut(s[2:], "m")
}

func (s *style) apply(parameters string) {
	p := strings.Split(parameters, ";")
	number := func(i int) int {
		if i >= len(p) {
			return 0
		}
		n, _ := strconv.Atoi(p[i])
		return n
	}
	for i := 0; i < len(p); i++ {
		switch n := number(i); {
		case n == 0:
			*s = style{}
		case n == 1:
			s.bold = true
		case n == 2:
			s.dim = true
		case n == 7:
			s.reversed = true
		case n == 22:
			s.bold, s.dim = false, false
		case n == 27:
			s.reversed = false
		case n == 38 || n == 48:
			colour := ""
			if number(i+1) == 5 {
				colour = indexed(number(i + 2))
				i += 2
			} else {
				colour = fmt.Sprintf("#%02x%02x%02x", number(i+2), number(i+3), number(i+4))
				i += 4
			}
			if n == 38 {
				s.fore = colour
			} else {
				s.back = colour
			}
		case n == 39:
			s.fore = ""
		case n == 49:
			s.back = ""
		case n >= 30 && n <= 37:
			s.fore = palette[n-30]
		case n >= 40 && n <= 47:
			s.back = palette[n-40]
		case n >= 90 && n <= 97:
			s.fore = palette[n-90+8]
		}
	}
}

// indexed is one of xterm's 256 colours.
func indexed(n int) string {
	switch {
	case n < 16:
		return palette[n]
	case n >= 232:
		return fmt.Sprintf("#%02[1]x%02[1]x%02[1]x", 8+10*(n-232))
	}
	level := func(n int) int {
		if n == 0 {
			return 0
		}
		return 55 + 40*n
	}
	n -= 16
	return fmt.Sprintf("#%02x%02x%02x", level(n/36), level(n/6%6), level(n%6))
}
