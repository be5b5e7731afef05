package auth

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"codex-proxy/internal/wildcard"
)

// Limits bound the use of one key. Zero values do not limit.
type Limits struct {
	Models            []string // the only models, by the names that clients use, or patterns of these
	Accounts          []string // the only accounts, by the names of their workers
	ChooseAccount     bool     // requests may name one of them
	Remotes           []string // the remotes that it may attach to, NAME or NAME:viewer; without any, none
	RequestsPerMinute int64
	TokensPerMinute   int64 // prompt and completion together
	TokensPerDay      int64 // of a day in UTC
	Concurrent        int64 // requests in flight
	// UnknownParameters is the handling of unknown parameters: Refuse, Ignore, or empty for the setting of the service.
	UnknownParameters string
	// Console is the right to the console from other machines: Read, Operate, or empty for none.
	Console string
}

// The values of UnknownParameters.
const (
	Refuse = "refuse"
	Ignore = "ignore"
)

// The values of Console.
const (
	Read    = "read"
	Operate = "operate"
)

// The names of the limits: in the key file, as options of `codex-proxy keys`
// and in metrics.
const (
	Models            = "models"
	Accounts          = "accounts"
	ChooseAccount     = "choose-account"
	RequestsPerMinute = "requests-per-minute"
	TokensPerMinute   = "tokens-per-minute"
	TokensPerDay      = "tokens-per-day"
	Concurrent        = "concurrent"
	Remotes           = "remotes"
	UnknownParameters = "unknown-parameters"
	Console           = "console"
)

// LimitNames are all of them, in the order in which they are shown.
var LimitNames = []string{
	RequestsPerMinute, TokensPerMinute, TokensPerDay, Concurrent, Models, Accounts, ChooseAccount, Remotes,
	UnknownParameters, Console,
}

const (
	maxLimit = 1_000_000_000_000
	// maxNames is a few more models than a worker lists, and more accounts than most have.
	maxNames = 64
)

func (l *Limits) number(name string) *int64 {
	switch name {
	case RequestsPerMinute:
		return &l.RequestsPerMinute
	case TokensPerMinute:
		return &l.TokensPerMinute
	case TokensPerDay:
		return &l.TokensPerDay
	case Concurrent:
		return &l.Concurrent
	default:
		return nil
	}
}

// Number is the limit of that name; 0 if it is not set, or not a number.
func (l Limits) Number(name string) int64 {
	if n := l.number(name); n != nil {
		return *n
	}
	return 0
}

// Set takes over one limit from its text; "none" removes it. Errors are for operators
// and do not repeat the value.
func (l *Limits) Set(name, value string) error {
	switch name {
	case Models:
		return setNames(&l.Models, name, value)
	case Accounts:
		return setNames(&l.Accounts, name, value)
	case Remotes:
		return l.setRemotes(value)
	case ChooseAccount:
		return l.setChoice(value)
	case UnknownParameters:
		return l.setUnknown(value)
	case Console:
		return l.setConsole(value)
	}
	n := l.number(name)
	if n == nil {
		return fmt.Errorf("there is no such limit; there are %s", strings.Join(LimitNames, ", "))
	}
	if value == "none" {
		*n = 0
		return nil
	}
	v, err := strconv.ParseInt(value, 10, 64)
	if err != nil || v < 1 || v > maxLimit {
		return fmt.Errorf("%s must be a number from 1 to %d, or none", name, int64(maxLimit))
	}
	*n = v
	return nil
}

// setNames takes over a list of the limit of that name.
func setNames(list *[]string, limit, value string) error {
	*list = nil
	if value == "none" {
		return nil
	}
	names := strings.Split(value, ",")
	if len(names) > maxNames {
		return fmt.Errorf("%s must name at most %d", limit, maxNames)
	}
	forbidden := func(r rune) bool { return r <= ' ' || r == '#' || r > '~' }
	for _, n := range names {
		if n == "" || len(n) > 256 || strings.ContainsFunc(n, forbidden) {
			return fmt.Errorf("%s must be names with a comma between them, without spaces and #", limit)
		}
	}
	if limit == Models && slices.ContainsFunc(names, func(n string) bool { return strings.Count(n, "*") > 1 }) {
		return errors.New(limit + " must be names with at most one *, which stands for any characters")
	}
	*list = names
	return nil
}

// viewerMark follows the name of a remote that a key may only watch.
const viewerMark = ":viewer"

func (l *Limits) setRemotes(value string) error {
	var remotes []string
	if err := setNames(&remotes, Remotes, value); err != nil {
		return err
	}
	for i, r := range remotes {
		name := strings.TrimSuffix(r, viewerMark)
		if strings.Contains(name, ":") {
			return errors.New(Remotes + " must be names of remotes, or NAME" + viewerMark +
				" for one that the key only watches")
		}
		if slices.ContainsFunc(remotes[:i], func(o string) bool { return strings.TrimSuffix(o, viewerMark) == name }) {
			return errors.New(Remotes + " must name each remote once")
		}
	}
	l.Remotes = remotes
	return nil
}

// RemoteNames are the names of the remotes that the key may attach to.
func (l Limits) RemoteNames() []string {
	var names []string
	for _, r := range l.Remotes {
		names = append(names, strings.TrimSuffix(r, viewerMark))
	}
	return names
}

// Remote reports whether the key may attach to a remote, and whether it may only watch.
func (l Limits) Remote(name string) (viewer, ok bool) {
	viewer = slices.Contains(l.Remotes, name+viewerMark)
	return viewer, viewer || slices.Contains(l.Remotes, name) && !strings.HasSuffix(name, viewerMark)
}

func (l *Limits) setChoice(value string) error {
	if value != "yes" && value != "no" && value != "none" {
		return errors.New(ChooseAccount + " must be yes or no")
	}
	l.ChooseAccount = value == "yes"
	return nil
}

func (l *Limits) setUnknown(value string) error {
	if value != Refuse && value != Ignore && value != "none" {
		return errors.New(UnknownParameters + " must be refuse, ignore, or none for the setting of config.toml")
	}
	l.UnknownParameters = strings.TrimSuffix(value, "none")
	return nil
}

func (l *Limits) setConsole(value string) error {
	if value != Read && value != Operate && value != "none" {
		return errors.New(Console + " must be read, operate or none")
	}
	l.Console = strings.TrimSuffix(value, "none")
	return nil
}

// Value is the text of one limit; "none" if it is not set.
func (l Limits) Value(name string) string {
	switch n := l.Number(name); {
	case n > 0:
		return strconv.FormatInt(n, 10)
	case name == Models && len(l.Models) > 0:
		return strings.Join(l.Models, ",")
	case name == Accounts && len(l.Accounts) > 0:
		return strings.Join(l.Accounts, ",")
	case name == Remotes && len(l.Remotes) > 0:
		return strings.Join(l.Remotes, ",")
	case name == ChooseAccount && l.ChooseAccount:
		return "yes"
	case name == UnknownParameters && l.UnknownParameters != "":
		return l.UnknownParameters
	case name == Console && l.Console != "":
		return l.Console
	default:
		return "none"
	}
}

// Words are the limits that are set, as the key file has them.
func (l Limits) Words() []string {
	var words []string
	for _, name := range LimitNames {
		if value := l.Value(name); value != "none" {
			words = append(words, name+"="+value)
		}
	}
	return words
}

// Allows reports whether the key may use a model, by the name that the client writes.
func (l Limits) Allows(model string) bool {
	return len(l.Models) == 0 || slices.ContainsFunc(l.Models, func(allowed string) bool {
		return wildcard.Match(allowed, model)
	})
}
