package daemon

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/test/await"
	"codex-proxy/test/bed"
	"codex-proxy/test/machine"
)

const (
	databaseName   = "db.example.com"
	databaseCA     = "/etc/codex-proxy/database-ca.pem"
	databaseRelay  = "codex-proxy-database.service"
	passwordFile   = "/etc/codex-proxy/database-password"
	fleetKeyCache  = "/var/lib/codex-proxy/keys.cache"
	databaseConfig = "[database]\nurl = \"postgres://codex@" + databaseName + "/codex\"\nca = \"" + databaseCA + "\"\n"
)

// Two hosts have the same API keys, by Debian's PostgreSQL on the first one. The second one serves while the database
// is stopped or cut off, also after a restart, and has changes at once afterwards.
func TestFleet(t *testing.T) { bed.BothSuites(t, testFleet) }

func testFleet(t *testing.T, suite string) {
	first := bed.NewOn(t, machine.Debian(suite, "postgresql", "python3"), bed.RealWorker, databaseConfig)
	second := bed.New(t, suite, bed.RealWorker, databaseConfig)
	bridge := machine.NewBridge(t)
	bridge.Plug(t, first.Machine, "10.0.0.1/24")
	bridge.Plug(t, second.Machine, "10.0.0.2/24")
	certificate, authority := bed.Certify(t, databaseName)
	for name, b := range map[string]*bed.Bed{"first": first, "second": second} {
		b.MustRun(t, "hostname", name)
		b.AppendTo("/etc/hosts", "10.0.0.1 "+databaseName+"\n")
		require.NoError(t, b.WriteFile(databaseCA, authority, 0o644))
	}
	ownKeys := []string{withoutDatabase(first, "one"), withoutDatabase(second, "two")}
	withoutDatabase(second, "taken")
	taken := withoutDatabase(first, "taken")

	// A host that has not joined yet goes on with the keys of its file.
	second.Start()
	chats(second, ownKeys[1], "not joined")

	startPostgres(first, certificate.Certificate[0], certificate.PrivateKey)
	for range 2 { // it may run again
		first.MustRun(t, "sh", "-ec", "codex-proxy database init | runuser -u postgres -- psql -v ON_ERROR_STOP=1")
	}
	password := first.MustRun(t, "cat", passwordFile)
	require.NoError(t, second.WriteFile(passwordFile, []byte(password), 0o600))
	_, stderr, err := first.Run(t.Context(), "codex-proxy", "database", "check")
	require.Error(t, err)
	assert.Contains(t, stderr, "codex-proxy database migrate")
	first.MustRun(t, "codex-proxy", "database", "migrate")
	joinNeedsTheRole(first)
	_, stderr, err = second.Run(t.Context(), "codex-proxy", "database", "join")
	require.Error(t, err, "it has another key of that name")
	assert.Contains(t, stderr, "codex-proxy keys revoke taken --file="+bed.KeyFile)
	second.MustRun(t, "codex-proxy", "keys", "revoke", "taken", "--file="+bed.KeyFile)
	second.MustRun(t, "codex-proxy", "database", "join")
	assert.Contains(t, second.MustRun(t, "cat", fleetKeyCache), "one ", "the first start does not wait for the database")
	second.MustRun(t, "systemctl", "restart", bed.ProxyUnit)
	first.DropIn(bed.ProxyUnit, "before", unitBefore)
	for _, b := range []*bed.Bed{first, second} {
		b.Start()
		await.True(t, func() bool {
			_, _, err := b.Run(t.Context(), "codex-proxy", "database", "check")
			return err == nil
		}, bed.Bound, "the service does not use the database")
		for _, key := range ownKeys {
			assert.Equal(t, http.StatusOK, withKey(b, key))
		}
	}
	hosts := first.MustRun(t, "codex-proxy", "database", "hosts")
	assert.Regexp(t, `(?m)^first +alive .*\n^second +alive `, hosts)
	untilRestart(first)
	limitedRole(first)

	sharing := &sharer{T: t, first: first, second: second, bridge: bridge, ann: ownKeys[0], bob: ownKeys[1]}
	sharing.everywhere()
	before := sharing.created(first, "", "before [[text fine]]").ID

	// A change on one host is in force on the other.
	shared := bed.AddKey(first, "shared")
	untilKey(second, shared, http.StatusOK, "added")
	bed.Keys(second, "set", "shared", "--concurrent=4")
	await.True(t, func() bool { return strings.Contains(bed.Keys(first, "list"), " 4 ") }, bed.Bound, "the limit")
	bed.Keys(second, "revoke", "shared")
	untilKey(first, shared, http.StatusUnauthorized, "revoked")
	untilKey(second, shared, http.StatusUnauthorized, "revoked")

	// The file of a host that joins again brings back no key, also beside another one of that name.
	bed.Keys(second, "revoke", "taken")
	first.MustRun(t, "codex-proxy", "database", "join")
	assert.NotContains(t, bed.Keys(second, "list"), "taken ")
	untilKey(first, taken, http.StatusUnauthorized, "revoked, and joined again")
	bed.AddKey(second, "taken")
	first.MustRun(t, "codex-proxy", "database", "join")
	assert.Equal(t, http.StatusUnauthorized, withKey(first, taken))

	sharesLikeThePool(t, first.Machine, bed.Trim(password))
	limited := limitOverHosts(first, second)
	lostHost(first)

	// The database is cut off: the second host serves, and a key that it does not know may be new.
	bridge.Cut(t, first.Machine)
	second.AwaitJournal(bed.ProxyUnit, "the database is away", bed.Bound)
	limited.withoutTheDatabase(first, second)
	added := bed.AddKey(first, "added")
	untilKey(second, added, http.StatusServiceUnavailable, "added elsewhere")
	assert.Equal(t, http.StatusUnauthorized, withKey(second, ""))
	chats(second, ownKeys[0], "the database is cut off")
	alone := sharing.cutOff(before)
	second.MustRun(t, "systemctl", "restart", bed.ProxyUnit)
	chats(second, ownKeys[0], "restarted, by "+fleetKeyCache)
	sharing.until(second, "kept in the file", alone...)
	assert.Equal(t, "600 codex-proxy\n", second.MustRun(t, "stat", "-c", "%a %U", fleetKeyCache))
	second.AwaitJournal(bed.ProxyUnit, "the database is away", bed.Bound)
	status, report := second.Readyz()
	assert.Equal(t, http.StatusOK, status)
	require.NotNil(t, report.Database)
	assert.True(t, report.Database.Away)
	assert.Empty(t, report.Database.Server, "for operators alone")
	assert.Contains(t, second.MustRun(t, "codex-proxy", "status"), "the database at "+databaseName+":5432 is away since")
	_, _, err = second.Run(t.Context(), "codex-proxy", "keys", "add", "lost")
	require.Error(t, err)
	bridge.Heal(t, first.Machine)
	untilKey(second, added, http.StatusOK, "added while it was away")
	limited.usageOfAll(first, second)
	sharing.until(first, "stored while the database was cut off", alone...)
	sharing.faults()
	sharing.lostHost()

	// The database restarts, and the relay dies.
	first.MustRun(t, "systemctl", "restart", "postgresql")
	second.MustRun(t, "systemctl", "kill", "--signal=KILL", databaseRelay)
	bed.Keys(first, "revoke", "added")
	untilKey(second, added, http.StatusUnauthorized, "revoked after a restart")

	// The name leads to another address, and the one before is silent.
	bridge.Move(t, first.Machine, "10.0.0.3/24")
	for _, b := range []*bed.Bed{first, second} {
		b.MustRun(t, "sed", "-i", "s/^10.0.0.1 /10.0.0.3 /", "/etc/hosts")
	}
	moved := bed.AddKey(first, "moved")
	untilKey(second, moved, http.StatusOK, "added after a move")

	limited.usageOfAll(first, second)

	// The way back.
	second.MustRun(t, "codex-proxy", "database", "leave")
	assert.Contains(t, second.MustRun(t, "cat", bed.KeyFile), "one ")
	assert.Empty(t, second.MustRun(t, "cat", passwordFile, "/etc/codex-proxy/database-service-password"))
	second.MustRun(t, "sed", "-i", "/^url = /d", "/etc/codex-proxy/config.toml")
	_, _, err = second.Run(t.Context(), "systemctl", "reload", bed.ProxyUnit)
	require.Error(t, err, "systemd reads the file at a start alone")
	assert.Equal(t, http.StatusOK, withKey(second, ownKeys[0]))
	second.MustRun(t, "systemctl", "restart", bed.ProxyUnit)
	assert.Equal(t, http.StatusOK, withKey(second, ownKeys[0]))
}

// joinNeedsTheRole has a host join, which names the remedy while the server refuses the service.
func joinNeedsTheRole(b *bed.Bed) {
	b.T.Helper()
	psql(b, "ALTER ROLE codex_service PASSWORD 'another'")
	_, stderr, err := b.Run(b.T.Context(), "codex-proxy", "database", "join")
	require.Error(b.T, err)
	assert.Contains(b.T, stderr, "the SQL of codex-proxy database init")
	b.MustRun(b.T, "sh", "-ec", "codex-proxy database init | runuser -u postgres -- psql -v ON_ERROR_STOP=1")
	b.MustRun(b.T, "codex-proxy", "database", "join")
}

// unitBefore has the credentials of the unit before there was a role of the service.
const unitBefore = `[Service]
LoadCredential=
SetCredential=
LoadCredential=api-keys:` + bed.KeyFile + `
LoadCredential=database-password:` + passwordFile + `
SetCredential=database-password:#none
`

// untilRestart upgrades a host from that unit: it goes on as the owner until a restart, as systemd passes credentials
// at a start alone.
func untilRestart(b *bed.Bed) {
	b.T.Helper()
	until := func(role, what string) {
		b.T.Helper()
		await.True(b.T, func() bool {
			_, _, err := b.Run(b.T.Context(), "codex-proxy", "database", "check")
			return err == nil
		}, bed.Bound, "%s: the service does not use the database", what)
		await.True(b.T, func() bool {
			return bed.Trim(psql(b, "SELECT string_agg(DISTINCT usename::text, ' ') FROM pg_stat_activity WHERE client_addr = '10.0.0.1'")) == role
		}, bed.Bound, "%s: not %s", what, role)
	}
	until("codex", "started by the unit before")
	b.DropIn(bed.ProxyUnit, "before", "")
	b.MustRun(b.T, "systemctl", "reload", bed.ProxyUnit)
	until("codex", "reloaded")
	b.MustRun(b.T, "systemctl", "restart", bed.ProxyUnit)
	until("codex_service", "restarted")
}

// limitedRole tries the role of the daemons, of which one that is taken over must not give keys to all hosts.
func limitedRole(b *bed.Bed) {
	b.T.Helper()
	sql := func(statement string) error {
		_, _, err := b.Run(b.T.Context(), "runuser", "-u", "postgres", "--", "psql", "-v", "ON_ERROR_STOP=1", "-d", "codex",
			"-c", "SET ROLE codex_service", "-c", "BEGIN", "-c", statement, "-c", "ROLLBACK")
		return err
	}
	for _, allowed := range []string{"SELECT line FROM codex.keys", "UPDATE codex.hosts SET until = now(), version = 'x'"} {
		assert.NoError(b.T, sql(allowed), allowed)
	}
	for _, refused := range []string{"INSERT INTO codex.keys VALUES ('x', 'x')", "UPDATE codex.keys SET line = 'x'", "DELETE FROM codex.keys",
		"UPDATE codex.revision SET n = 0", "UPDATE codex.schema SET step = 0", "DELETE FROM codex.hosts", "UPDATE codex.hosts SET machine = 'x'",
		"INSERT INTO codex.hosts VALUES ('x', 'x', 'x')", "CREATE TABLE codex.x (x int)", "DROP TABLE codex.keys"} {
		assert.Error(b.T, sql(refused), refused)
	}
}

// chats sends a chat turn with a key.
func chats(b *bed.Bed, key, what string) {
	b.T.Helper()
	res, text := b.AskThrough(b.T, http.MethodPost, "/v1/chat/completions", bed.ChatBody("hello", false),
		"Authorization", "Bearer "+key)
	assert.Equal(b.T, http.StatusOK, res.StatusCode, "%s: %s", what, text)
}

// withoutDatabase adds a key to the file of a host.
func withoutDatabase(b *bed.Bed, name string) (key string) {
	b.T.Helper()
	return bed.AddKey(b, name, "--file="+bed.KeyFile)
}

// startPostgres starts the cluster of Debian, with a certificate, for the machines of the bridge.
func startPostgres(b *bed.Bed, certificate []byte, key any) {
	b.T.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(b.T, err)
	for name, block := range map[string]*pem.Block{
		"certificate": {Type: "CERTIFICATE", Bytes: certificate}, "key": {Type: "PRIVATE KEY", Bytes: der},
	} {
		require.NoError(b.T, b.WriteFile("/etc/postgresql/"+name+".pem", pem.EncodeToMemory(block), 0o600))
	}
	b.MustRun(b.T, "sh", "-ec", `
cd /etc/postgresql
chown postgres *.pem
cat >>"$(echo */main/postgresql.conf)" <<X
listen_addresses = '*'
ssl_cert_file = '/etc/postgresql/certificate.pem'
ssl_key_file = '/etc/postgresql/key.pem'
X
echo 'hostssl codex codex,codex_service 10.0.0.0/24 scram-sha-256' >>"$(echo */main/pg_hba.conf)"
systemctl start postgresql "postgresql@$(cd /etc/postgresql && echo */main | tr / -)"`)
}

// withKey is the status of a request with a key; empty: without one.
func withKey(b *bed.Bed, key string) int {
	b.T.Helper()
	r, err := http.NewRequestWithContext(b.T.Context(), http.MethodGet, bed.Base+"/v1/models", http.NoBody)
	require.NoError(b.T, err)
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := b.HTTP.Do(r)
	require.NoError(b.T, err)
	require.NoError(b.T, res.Body.Close())
	return res.StatusCode
}

// untilKey waits until requests with a key get a status, and logs how long that took.
func untilKey(b *bed.Bed, key string, status int, what string) {
	b.T.Helper()
	began := time.Now()
	await.True(b.T, func() bool { return withKey(b, key) == status }, bed.Bound, "%s: not %d", what, status)
	b.T.Logf("%s: %d after %v", what, status, time.Since(began))
}
