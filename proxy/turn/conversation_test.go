package turn

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/history"
)

// asking is a request of that key with instructions and items.
func asking(key, instructions string, items ...history.Item) *Request {
	return &Request{Key: key, Turn: &appserver.TurnRequest{BaseInstructions: &instructions, Items: items}}
}

// All requests of a conversation have one identity, and no others have it.
func TestIdentityOfAConversation(t *testing.T) {
	rules, first := history.TextMessage("developer", "be brief"), history.TextMessage("user", "q1")
	answer, second := history.TextMessage("assistant", "a1"), history.TextMessage("user", "q2")
	begun := asking("alice", "be kind", rules, first).conversation()
	assert.Equal(t, begun, asking("alice", "be kind", rules, first, answer, second).conversation())

	opening, later := "be kind", asking("alice", "be brisk", rules, first, answer, second)
	later.Opening = &opening
	assert.Equal(t, begun, later.conversation(), "later instructions may be others")

	large := strings.Repeat("x", 3*mostHashed)
	seen := map[string]bool{}
	for _, other := range []*Request{
		asking("alice", "be kind", rules, first),
		asking("bob", "be kind", rules, first),
		asking("alice", "be brisk", rules, first),
		asking("alice", "be kind", first),
		asking("alice", "be kind", rules, second),
		asking("alice", "be kind", history.TextMessage("user", large)),
		asking("alice", "be kind", history.TextMessage("user", large+"x")),
		asking("alice", "be kind", history.TextMessage("user", "y"+large)),
		asking("alice", "be kind", history.TextMessage("user", large+"y")),
		{Key: "alice", CacheKey: "be kind", Turn: &appserver.TurnRequest{}},
		{Key: "bob", CacheKey: "be kind", Turn: &appserver.TurnRequest{}},
	} {
		id := other.conversation()
		assert.False(t, seen[id])
		seen[id] = true
	}
}

// A prompt_cache_key identifies a conversation whatever else changes in it.
func TestCacheKeyIdentifiesAConversation(t *testing.T) {
	one, two := asking("alice", "be kind"), asking("alice", "be brisk", history.TextMessage("user", "q"))
	one.CacheKey, two.CacheKey = "session", "session"
	assert.Equal(t, one.conversation(), two.conversation())
}
