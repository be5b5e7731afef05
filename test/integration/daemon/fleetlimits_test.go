package daemon

import (
	"encoding/json"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/daemon/usagetable"
	"codex-proxy/proxy/usage"
	"codex-proxy/test/await"
	"codex-proxy/test/bed"
)

// perMinute is the limit of the key of these tests.
const perMinute = 30

// limited is a key with a limit that two hosts hold together.
type limited struct {
	key      string
	answered int // by both hosts
}

// limitOverHosts sends requests of a key to two hosts at the same time: together they admit what one would.
func limitOverHosts(first, second *bed.Bed) *limited {
	t := first.T
	t.Helper()
	l := &limited{key: bed.AddKey(first, "limited", "--requests-per-minute="+strconv.Itoa(perMinute))}
	for _, b := range []*bed.Bed{first, second} {
		untilKey(b, l.key, http.StatusOK, "the limited key")
	}
	began := time.Now()
	l.send(perMinute, first, second)
	refilled := int(math.Ceil(time.Since(began).Minutes() * perMinute))
	t.Logf("%d admitted of %d a minute within %v", l.answered, perMinute, time.Since(began))
	assert.LessOrEqual(t, l.answered, perMinute+refilled)
	assert.GreaterOrEqual(t, l.answered, perMinute-1) // and 97 % of it

	var list struct {
		Keys []struct {
			Name string
			Used struct {
				RequestsPerMinute int64 `json:"requests_per_minute"`
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(bed.Keys(first, "list", "--json")), &list))
	for _, key := range list.Keys {
		if key.Name == "limited" {
			assert.Positive(t, key.Used.RequestsPerMinute)
		}
	}
	return l
}

// send sends so many requests to each host, and counts the answered ones. The others get a 429.
func (l *limited) send(each int, hosts ...*bed.Bed) {
	var senders sync.WaitGroup
	var mu sync.Mutex
	for _, b := range hosts {
		senders.Go(func() {
			for range each {
				res, text := b.AskThrough(b.T, http.MethodPost, "/v1/chat/completions", bed.ChatBody("hello", false),
					"Authorization", "Bearer "+l.key)
				mu.Lock()
				if res.StatusCode == http.StatusOK {
					l.answered++
				} else {
					assert.Equal(b.T, http.StatusTooManyRequests, res.StatusCode, text)
					assert.NotEmpty(b.T, res.Header.Get("Retry-After"))
				}
				mu.Unlock()
			}
		})
	}
	senders.Wait()
}

// withoutTheDatabase has a host without the database go on with its part of the limit. The share that it held comes back
// to the others, as the database takes it for lost.
func (l *limited) withoutTheDatabase(first, second *bed.Bed) {
	t := first.T
	t.Helper()
	began, before := time.Now(), l.answered
	l.send(perMinute, second)
	assert.LessOrEqual(t, l.answered-before, perMinute/2+int(math.Ceil(time.Since(began).Minutes()*perMinute))+1)
	silent := regexp.MustCompile(`(?m)^second +silent +\S+ +0 `)
	await.True(t, func() bool { return silent.MatchString(first.MustRun(t, "codex-proxy", "database", "hosts")) }, bed.Bound,
		"the second host is not silent, or its share does not come back")
}

// lostHost has the share of a host come back that is gone for good.
func lostHost(b *bed.Bed) {
	b.T.Helper()
	psql(b, `INSERT INTO codex.hosts (name, machine, version) VALUES ('lost', 'x', '1')`)
	psql(b, `INSERT INTO codex.limits (key, kind, held, demand) VALUES ('lost', 'concurrent', 10, 3)`)
	psql(b, `INSERT INTO codex.shares (host, key, kind, process, used, held, demand) VALUES ('lost', 'lost', 'concurrent', 'p', 0, 8, 3)`)
	await.True(b.T, func() bool {
		return bed.Trim(psql(b, "SELECT held || ' ' || demand FROM codex.limits WHERE key = 'lost'")) == "2 0"
	}, bed.Bound, "the share of a lost host does not come back")
	b.MustRun(b.T, "codex-proxy", "database", "leave", "lost")
}

// usageOfAll waits until the usage of the key is what both hosts have answered, on any host.
func (l *limited) usageOfAll(hosts ...*bed.Bed) {
	for _, b := range hosts {
		b.T.Helper()
		await.True(b.T, func() bool {
			var table usagetable.Table
			require.NoError(b.T, json.Unmarshal([]byte(b.MustRun(b.T, "codex-proxy", "usage", "--by=key", "--json")), &table))
			return slices.ContainsFunc(table.Usage, func(sum usage.Sum) bool {
				return sum.Key == "limited" && sum.Requests == int64(l.answered)
			})
		}, bed.Bound, "the usage is not that of the %d answered requests", l.answered)
	}
}

// psql runs a query on the host of the database.
func psql(b *bed.Bed, query string) string {
	b.T.Helper()
	return b.MustRun(b.T, "runuser", "-u", "postgres", "--", "psql", "-d", "codex", "-Atc", query)
}
