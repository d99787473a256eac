package profile

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"footfall/output"
	"html"
	"io"
)

//go:embed html/page.html
var page []byte

//go:embed html/page.css
var pageStyle []byte

//go:embed html/page.js
var pageScript []byte

// printHTML writes one page that needs nothing else: the style, the program and
// the data, the JSON of the profile, are in it.
func printHTML(w io.Writer, r *View) error {
	// Encoding turns <, > and & into escapes, so that the data cannot end the
	// element that holds it.
	d := newDocument(r)
	nodes := r.Graph.Ranked()
	for i, f := range d.Functions {
		d.Functions[i].Name = nodes[i].shortName()
		if f.File != "" {
			d.Functions[i].File = r.shown(f.File)
		}
	}
	d.addSources(r)
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	rest := page
	for _, part := range []struct {
		mark string
		text []byte
	}{ // in the order of the page
		{"{{policy}}", []byte(output.PagePolicy(pageScript, pageStyle))},
		{"{{title}}", []byte(html.EscapeString(r.Title))},
		{"{{style}}", pageStyle},
		{"{{data}}", data},
		{"{{script}}", pageScript},
	} {
		before, after, _ := bytes.Cut(rest, []byte(part.mark))
		if _, err := w.Write(append(bytes.Clone(before), part.text...)); err != nil {
			return err
		}
		rest = after
	}
	_, err = w.Write(rest)
	return err
}
