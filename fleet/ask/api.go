package ask

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"footfall/coverage"
	"footfall/fleet/store"
	"footfall/output"
	"footfall/report"
)

// PathAPI is where questions are, below the address of a server: a name of [Questions], or "coverage".
const PathAPI = "/api/v1/"

// API answers questions over HTTP: GET PathAPI+QUESTION?PARAMETERS has the answer as JSON, and PathAPI+"coverage" that of
// a selection in any output of a report that is one file, of which "output" has the name, "json" by default; "by" in place of that counts by directory, owner or file, see [CoverageBy].
func (a *Ask) API() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PathAPI+"coverage", a.serveCoverage)
	mux.HandleFunc("GET "+PathAPI+"{question}", a.serveAnswer)
	return mux
}

// Status is the status of HTTP for an error.
func Status(err error) int {
	switch {
	case errors.Is(err, store.ErrAway):
		return http.StatusServiceUnavailable
	case errors.Is(err, ErrUnknown), errors.Is(err, ErrNoData):
		return http.StatusNotFound
	case errors.Is(err, ErrWrong):
		return http.StatusBadRequest
	case errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

func fail(w http.ResponseWriter, err error) { http.Error(w, "footfall: "+err.Error(), Status(err)) }

func (a *Ask) serveAnswer(w http.ResponseWriter, r *http.Request) {
	answer, err := a.Answer(r.Context(), r.PathValue("question"), r.URL.Query())
	writeJSON(w, answer, err)
}

func writeJSON(w http.ResponseWriter, answer any, err error) {
	if err != nil {
		fail(w, err)
		return
	}
	b, err := json.Marshal(answer)
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(b, '\n'))
}

// Outputs are the outputs of a report that are one file and show no sources.
func Outputs() []string {
	var names []string
	for _, f := range report.Formats() {
		if f.Kind != output.Tree && f.Name != "history" && f.Name != "ran" && f.Name != "excluded" {
			names = append(names, f.Name)
		}
	}
	return names
}

// contentTypes are those of outputs that are not plain text.
var contentTypes = map[string]string{
	"json": "application/json", "gcovr": "application/json", "gcovr5": "application/json", "coveralls": "application/json", "gitlab": "application/json",
	"cobertura": "application/xml", "sonarqube": "application/xml", "jacoco": "application/xml", "clover": "application/xml",
	"badge": "image/svg+xml", "csv": "text/csv; charset=utf-8", "markdown": "text/markdown; charset=utf-8",
}

func (a *Ask) serveCoverage(w http.ResponseWriter, r *http.Request) {
	values := r.URL.Query()
	if values.Has("by") {
		answer, err := a.CoverageBy(r.Context(), values)
		writeJSON(w, answer, err)
		return
	}
	format := "json"
	if values.Has("output") {
		format = values.Get("output")
		values.Del("output")
	}
	if !slices.Contains(Outputs(), format) {
		fail(w, wrong("output: %q is none of %s", format, strings.Join(Outputs(), ", ")))
		return
	}
	set, err := a.Coverage(r.Context(), values)
	if err != nil {
		fail(w, err)
		return
	}
	var b bytes.Buffer
	if err := a.print(&b, set, format); err != nil {
		fail(w, err)
		return
	}
	kind := contentTypes[format]
	if kind == "" {
		kind = "text/plain; charset=utf-8"
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(b.Bytes())
}

func (a *Ask) print(w io.Writer, set *coverage.Set, format string) error {
	r := report.Report{Set: set, Shown: func(path string) string { return path }, Time: a.now(), ReadSource: NoSources}
	_, err := r.Write(output.Request{Format: format, File: "-"}, w)
	return err
}

// A Getter asks a server.
type Getter interface {
	// Get returns what is at a path below the server's address, which is to be closed.
	Get(ctx context.Context, path string, query url.Values) (io.ReadCloser, error)
}

// A Client asks a server that has an [API].
type Client struct {
	Server Getter
	// Read reads a report that has been written to a file.
	Read func(file string) (*coverage.Set, error)
}

// Answer answers a question.
func (c *Client) Answer(ctx context.Context, name string, values url.Values) (Answer, error) {
	q, err := questionNamed(name)
	if err != nil {
		return nil, err
	}
	body, err := c.Server.Get(ctx, PathAPI+name, values)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	answer := q.empty()
	if err := json.NewDecoder(body).Decode(answer); err != nil {
		return nil, fmt.Errorf("answer of the server: %w", err)
	}
	return answer, nil
}

// Coverage returns the coverage of a selection.
func (c *Client) Coverage(ctx context.Context, values url.Values) (*coverage.Set, error) {
	body, err := c.Server.Get(ctx, PathAPI+"coverage", values)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	f, err := os.CreateTemp("", "footfall-*.json")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	_, err = io.Copy(f, body)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("answer of the server: %w", err)
	}
	return c.Read(f.Name())
}
