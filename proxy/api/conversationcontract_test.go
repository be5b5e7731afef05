package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
	"codex-proxy/test/contract"
)

// converser is a rig whose model says what it is told to say, and that keeps conversations.
type converser struct {
	*apitest.Rig
	schema *contract.Schema

	mu   sync.Mutex
	says saying
}

func newConverser(t *testing.T) *converser {
	t.Helper()
	schema, err := contract.Compile()
	require.NoError(t, err)
	k := &converser{schema: schema}
	k.Rig = apitest.NewRig(t, &appservertest.Server{Handler: func(ctx context.Context, turn *appservertest.Turn) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.says.play(ctx, turn)
		return nil
	}}, apitest.Keeping(t), func(o *apitest.Options) { o.IdleTimeout = 4 * apitest.Bound })
	k.Client.Timeout = 4 * apitest.Bound
	return k
}

// gets has an answer of that kind.
func (k *converser) gets(t *testing.T, kind contract.Kind, method, path, body string) string {
	t.Helper()
	resp := k.Do(t, method, path, body)
	answer := apitest.Text(t, resp)
	require.Equal(t, http.StatusOK, resp.StatusCode, answer)
	require.NoError(t, k.schema.Check(kind, []byte(answer)))
	return answer
}

// everyItem has an item of each type that a conversation takes.
const everyItem = `{"items":[{"role":"system","content":"s"},
	{"role":"user","content":[{"type":"input_text","text":"t"},{"type":"input_image","image_url":"` + pixelURL + `"}]},
	{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]},
	{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":"e"},
	{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},
	{"type":"function_call_output","call_id":"c1","output":"o"},
	{"type":"custom_tool_call","call_id":"c2","name":"g","input":"i"},
	{"type":"custom_tool_call_output","call_id":"c2","output":[{"type":"input_text","text":"o"}]},
	{"type":"tool_search_call","call_id":"c3","arguments":{}},
	{"type":"tool_search_output","call_id":"c3","tools":[]}]}`

// pixelURL is an image of one pixel.
const pixelURL = "data:image/png;base64," +
	"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// Conversations, their items and the responses in them fit OpenAI's schemas, whatever the model says.
func TestConversationsFitTheSchemas(t *testing.T) {
	k := newConverser(t)
	var c struct{ ID string }
	created := k.gets(t, contract.Conversation, http.MethodPost, "/v1/conversations", everyItem)
	require.NoError(t, json.Unmarshal([]byte(created), &c))
	path := "/v1/conversations/" + c.ID
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		k.mu.Lock()
		k.says = randomSaying(random, nil)
		k.mu.Unlock()
		body, err := json.Marshal(strings.Join(randomText(random, 8), "") + "q")
		require.NoError(t, err)
		resp := k.Responding(t, apitest.Asked(fmt.Sprintf(`"store":%t,"reasoning":{"summary":"auto"},"conversation":"%s",`,
			random.IntN(2) == 0, c.ID), string(body)))
		whole := apitest.Text(t, resp)
		require.Equal(t, http.StatusOK, resp.StatusCode, whole)
		_, err = k.schema.Response([]byte(whole))
		require.NoError(t, err)
	}
	var list apitest.SeenList
	seen := map[string]bool{}
	for after := ""; after == "" || list.HasMore; after = "&after=" + *list.LastID {
		page := k.gets(t, contract.ConversationItems, http.MethodGet,
			path+"/items?limit=7&include=reasoning.encrypted_content"+after, "")
		require.NoError(t, json.Unmarshal([]byte(page), &list))
		for _, item := range list.Data {
			require.False(t, seen[item.ID], "twice")
			seen[item.ID] = true
			k.gets(t, contract.ConversationItem, http.MethodGet, path+"/items/"+item.ID, "")
		}
	}
	assert.GreaterOrEqual(t, len(seen), 30)
	for id := range seen {
		k.gets(t, contract.Conversation, http.MethodDelete, path+"/items/"+id, "")
	}
	k.gets(t, contract.ConversationItems, http.MethodGet, path+"/items", "")
	k.gets(t, contract.ConversationItems, http.MethodPost, path+"/items", everyItem)
	k.gets(t, contract.Conversation, http.MethodPost, path, `{"metadata":{"a":"b"}}`)
	k.gets(t, contract.Conversation, http.MethodGet, path, "")
	k.gets(t, contract.ConversationDeleted, http.MethodDelete, path, "")
}
