package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Reader answers: it is what questions of a fleet are asked of. It may be used by several goroutines.
type Reader interface {
	// Units calls use with each unit of the builds of the query, in the order of their names, without its program.
	Units(ctx context.Context, q *Query, use func(Hash, Unit) error) error
	// Programs calls use with the units that have these hashes, and leaves out those that are not known.
	Programs(ctx context.Context, hashes []Hash, use func(Hash, Unit) error) error
	// Totals calls use with each unit of the builds of the query, those that never counted too, and the sums of what
	// the query chooses. Days that have been rolled up count as a whole: where From or To are within one it is that of
	// its beginning that decides. Programs come without their bytes unless they are wanted.
	Totals(ctx context.Context, q *Query, programs bool, use func(Total) error) error
	// Shares calls use with each host's part of what was counted in the units, by the sets of labels that it reported
	// with, in no order. No units are all.
	Shares(ctx context.Context, q *Query, units []Hash, use func(Share) error) error
	// LastSeen calls use with each unit of the builds of the query, one build after the other, and when its counters
	// were seen to count: ever, on whatever host, and apart from that in results that were pushed, if they were there.
	// The vectors are for the call only.
	LastSeen(ctx context.Context, q *Query, use func(LastSeen) error) error
	// Evidence returns for each build of the query, in the order in which they were told, who reported of it: hosts
	// between whose first and last report is some of the time of the query.
	Evidence(ctx context.Context, q *Query) ([]Evidence, error)
	// Reports calls use with each build of the query and each host that reported of it, as Evidence has them.
	Reports(ctx context.Context, q *Query, use func(HostReport) error) error
	// Sizes returns how much there is.
	Sizes(ctx context.Context) (Sizes, error)
	Close() error
}

// A Store is a Reader that takes counts.
type Store interface {
	Reader
	// PutBuild tells a build and its units. Those that are known may be told again, and a build may get more of them:
	// libraries that are opened later.
	PutBuild(ctx context.Context, b *Build) error
	// Announce tells a build and the hashes of its units, and returns those of units that have to be told by PutBuild
	// because nobody has.
	Announce(ctx context.Context, id, release string, units []Hash) (unknown []Hash, err error)
	// Push adds a batch, and returns when that will not be lost. To push it again, or an older one of the same instance
	// and window, changes nothing. What fails may be there, or not.
	Push(ctx context.Context, b *Batch) error
	// Expire makes sums of each day of the windows that began before rolled, the beginning of a day of UTC, which take
	// no more counts from then on, and forgets the sums of days before forgotten, and texts of which all builds were last
	// reported of before the day of forgotten, these at once or a moment later. What was last seen when stays.
	Expire(ctx context.Context, rolled, forgotten time.Time) error
	// TextBytes returns how many bytes texts take as they are packed.
	TextBytes(ctx context.Context) (int64, error)
}

// Stores are those of a server: each project has one of its own.
type Stores interface {
	// Projects are the names of those that there are, and the default one.
	Projects(ctx context.Context) ([]string, error)
	// Open opens the store of a project, which is made if it is not there.
	Open(ctx context.Context, project string) (Store, error)
}

// Errors of stores that cannot be written now.
var (
	ErrClosing = errors.New("the store is being closed")
	ErrAway    = errors.New("the database of the store does not answer now; what is sent later counts")
)

// DefaultProject is the project where there are no tokens.
const DefaultProject = "default"

// CheckProject checks the name of a project, which is part of names of files and of tables.
func CheckProject(name string) error {
	for _, c := range name {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return fmt.Errorf("project %q: its name is of a to z, 0 to 9, - and _", name)
		}
	}
	if name == "" || len(name) > 64 {
		return fmt.Errorf("project %q: its name has 1 to 64 characters", name)
	}
	return nil
}
