package html

import (
	"bytes"
	"encoding/base64"
	"html/template"
	"io"

	"footfall/output"
	"footfall/report/source"

	"github.com/klauspost/compress/flate"
)

// mostPlain is how many bytes of sources a page holds as they are, to be read
// without JavaScript. Of more, each source is compressed, and its page made by
// the browser when it is opened: a project of 6 MB fits into 2.
const mostPlain = 5 << 19

type singleData struct {
	indexData
	Style   template.CSS
	Script  template.JS
	Sources []template.HTML
	Packed  bool
}

// writeSinglePage writes all into one page that needs no other file.
func writeSinglePage(c Contents, target string) ([]source.Problem, error) {
	b, problems, err := SinglePage(c)
	if err == nil {
		err = output.WriteBytes(target, b)
	}
	return problems, err
}

// SinglePage is the page that has everything and needs no other file. The problems are those of Write.
func SinglePage(c Contents) ([]byte, []source.Problem, error) {
	s := newSite(c)
	s.single = true
	frames := make([]sourceData, len(s.pages))
	err := s.each(func(w *pageWriter, i int) (err error) {
		w.buf = nil // the lines of each source stay
		w.load(i)
		frames[i], err = w.sourceData(i, 0)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	size := 0
	for i := range frames {
		size += len(frames[i].Main)
	}
	d := singleData{indexData: s.indexData(s.tree()), Sources: make([]template.HTML, len(frames)), Packed: size > mostPlain}
	err = s.each(func(_ *pageWriter, i int) error {
		f := &frames[i]
		if d.Packed {
			f.Main = pack(f.Main)
		}
		var b bytes.Buffer
		err := templates().ExecuteTemplate(&b, "source", f)
		d.Sources[i] = template.HTML(b.String())
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	style, _ := assets.ReadFile(styleFile)
	script, _ := assets.ReadFile(scriptFile)
	d.Style, d.Script, d.Policy = template.CSS(style), template.JS(script), output.PagePolicy(withinLines(script), withinLines(style))
	b, err := pageOf("single.html", d)
	return b, s.problems(), err
}

// pack returns an element with compressed content, which the script of the
// page replaces by the content.
func pack(content template.HTML) template.HTML {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.DefaultCompression)
	if err == nil {
		_, err = io.WriteString(w, string(content))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // a buffer takes everything
	}
	return template.HTML(`<script type="text/plain">` + base64.StdEncoding.EncodeToString(b.Bytes()) + "</script>\n")
}

// withinLines is a script or style as the page has it, behind the tag's line.
func withinLines(b []byte) []byte { return append([]byte("\n"), b...) }
