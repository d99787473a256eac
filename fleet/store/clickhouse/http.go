package clickhouse

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"footfall/fleet/store"
)

// A database is that of a server, reached by its HTTP interface.
type database struct {
	address  string // of the server
	name     string
	user     string
	password string
	client   *http.Client
	settings url.Values // that this server knows, for all queries
}

// defaultName is that of the database, unless it is told.
const defaultName = "footfall"

// parse reads the address of the database of one server: http://[USER[:PASSWORD]@]HOST:PORT[/DATABASE].
func parse(address string) (*database, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Contains(u.Host, ",") || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("an address such as clickhouse:http://127.0.0.1:8123/footfall was expected")
	}
	d := &database{name: strings.Trim(u.Path, "/"), user: os.Getenv("CLICKHOUSE_USER"), password: os.Getenv("CLICKHOUSE_PASSWORD")}
	if d.name == "" {
		d.name = defaultName
	}
	if strings.Contains(d.name, "/") {
		return nil, fmt.Errorf("the database %q has a / in its name", d.name)
	}
	if u.User != nil {
		d.user = u.User.Username()
		if password, told := u.User.Password(); told {
			d.password = password
		}
	}
	d.address = (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
	d.client = &http.Client{
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			MaxIdleConnsPerHost: 16,
			// A server closes what is idle for 3 seconds, as it comes.
			IdleConnTimeout:    2 * time.Second,
			DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return d, nil
}

func (d *database) String() string { return d.address + "/" + d.name }

// outside is where requests go that are none of the database, which may not be there yet.
func (d *database) outside() *database {
	o := *d
	o.name = "system"
	return &o
}

// exec does something that has no answer.
func (d *database) exec(ctx context.Context, query string) error {
	body, err := d.post(ctx, nil, []byte(query))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, body)
	return errors.Join(err, body.Close())
}

// insert adds rows to a table, whose columns are named: all, or none if it fails. None need no server.
func (d *database) insert(ctx context.Context, table, columns string, r *rows) error {
	if r.n == 0 {
		return nil
	}
	body, err := d.post(ctx, url.Values{"query": {"INSERT INTO " + table + " (" + columns + ") FORMAT RowBinary"}}, r.b)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, body)
	return errors.Join(err, body.Close())
}

// A blocks is rows to be inserted into a table, so many bytes at a time that memory has them.
type blocks struct {
	db             *database
	table, columns string
	rows
}

const blockBytes = 8 << 20

// wrote is called after each row, and inserts what there is if that is much.
func (b *blocks) wrote(ctx context.Context) error {
	if len(b.b) < blockBytes {
		return nil
	}
	return b.flush(ctx)
}

// flush inserts what there is.
func (b *blocks) flush(ctx context.Context) error {
	all := b.rows
	b.rows = rows{}
	return b.db.insert(ctx, b.table, b.columns, &all)
}

// query calls use for each row of an answer. The server sends it when it has all of it, since errors that come in the
// middle would look like rows.
func (d *database) query(ctx context.Context, query string, use func(*answer) error) error {
	body, err := d.post(ctx, url.Values{"wait_end_of_query": {"1"}, "buffer_size": {"67108864"}}, []byte(query+" FORMAT RowBinary"))
	if err != nil {
		return err
	}
	defer body.Close()
	a := &answer{r: bufio.NewReaderSize(body, 1<<18)}
	for a.more() {
		err := use(a)
		if a.err != nil {
			break
		}
		if err != nil {
			return err
		}
	}
	if a.err != nil {
		return fmt.Errorf("%w: answer of %s: %w", store.ErrAway, d, a.err)
	}
	return nil
}

// post sends a request, twice if it did not come through the first time: whatever we ask for may be done
// twice.
func (d *database) post(ctx context.Context, parameters url.Values, body []byte) (io.ReadCloser, error) {
	values := url.Values{"database": {d.name}}
	for _, more := range []url.Values{d.settings, parameters} {
		for name, v := range more {
			values[name] = v
		}
	}
	var answer *http.Response
	for try := range 2 {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.address+"/?"+values.Encode(), bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		if d.user != "" || d.password != "" {
			user := d.user
			if user == "" {
				user = "default"
			}
			r.SetBasicAuth(user, d.password)
		}
		answer, err = d.client.Do(r)
		switch {
		case err == nil && answer.StatusCode == http.StatusOK:
			return answer.Body, nil
		case err == nil:
			return nil, d.failed(answer)
		case ctx.Err() != nil || try > 0:
			if bare := (*url.Error)(nil); errors.As(err, &bare) { // it has the query in it
				err = bare.Err
			}
			return nil, fmt.Errorf("%w: %s: %w", store.ErrAway, d.address, err)
		}
	}
	return nil, nil
}

// A failure is what a server says that it could not do.
type failure struct {
	Code int // of ClickHouse's ErrorCodes; 0: it said none
	Text string
}

func (f *failure) Error() string { return f.Text }

// Codes of errors: https://github.com/ClickHouse/ClickHouse/blob/master/src/Common/ErrorCodes.cpp
const (
	tableExists     = 57
	unknownTable    = 60
	unknownDatabase = 81
	unknownUser     = 192
	wrongPassword   = 193
	needsPassword   = 194
	droppedTable    = 218 // while it was being asked
	notAllowed      = 497
	notAuthorized   = 516
)

// passing are codes of what may be otherwise in a moment: reading past the end of what another server sends, no time, no
// room, no memory, too many parts or queries, a server that ends, is read-only, or has no quorum.
var passing = []int{32, 159, 164, 201, 202, 203, 209, 210, 225, 236, 241, 242, 243, 252, 279, 285, 286, 297, 319, 394, 999}

var codePattern = regexp.MustCompile(`^Code: (\d+)`)

// failed is the error of an answer that is not OK.
func (d *database) failed(r *http.Response) error {
	defer r.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(r.Body, 2000))
	first, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	f := &failure{Text: first}
	if m := codePattern.FindStringSubmatch(first); m != nil {
		f.Code, _ = strconv.Atoi(m[1])
	}
	switch {
	case slices.Contains([]int{unknownUser, wrongPassword, needsPassword, notAuthorized}, f.Code):
		return fmt.Errorf("%s does not let us in: name user and password as in clickhouse:http://USER:PASSWORD@HOST:8123/DATABASE, or in CLICKHOUSE_USER and CLICKHOUSE_PASSWORD: %w", d.address, f)
	case f.Code == notAllowed:
		return fmt.Errorf("%s: the user may not do that; it needs all rights on the database: GRANT ALL ON %s.* TO ...: %w", d, d.name, f)
	case slices.Contains(passing, f.Code), f.Code == 0 && r.StatusCode >= 500:
		return fmt.Errorf("%w: %s: %w", store.ErrAway, d, f)
	case f.Code == 0:
		return fmt.Errorf("%s answers %s, as no ClickHouse does: its http_port is wanted (8123 unless it was changed): %w", d.address, r.Status, f)
	}
	return fmt.Errorf("%s: %w", d, f)
}

// hasCode tells whether a server said that.
func hasCode(err error, codes ...int) bool {
	f := (*failure)(nil)
	return errors.As(err, &f) && slices.Contains(codes, f.Code)
}

// quote makes a literal of a string of any bytes.
func quote(s string) string {
	b := []byte{'\''}
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\'' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c > '~':
			b = fmt.Appendf(b, "\\x%02X", c)
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '\''))
}

// in is the condition that a column is one of some values.
func in[T any](column string, values []T, text func(*T) string) string {
	var b strings.Builder
	b.WriteString(column + " IN (")
	for i := range values {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(quote(text(&values[i])))
	}
	b.WriteByte(')')
	return b.String()
}

func inTexts(column string, values []string) string {
	return in(column, values, func(s *string) string { return *s })
}

func inIDs(column string, values []id) string {
	return in(column, values, func(v *id) string { return string(v[:]) })
}
