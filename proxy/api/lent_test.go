package api_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
	"codex-proxy/proxy/api/apitest"
)

// Clients that do not read hold little, which is counted; those that do get all of it
// meanwhile.
func TestUnreadAnswersHoldLittle(t *testing.T) {
	t.Parallel()
	const clients, size = 50, 8 << 20 // which is more than the kernel keeps for a client
	r := apitest.NewRig(t, &appservertest.Server{Handler: appservertest.Reply("x")}, apitest.Keeping(t, 1<<30), func(o *apitest.Options) {
		o.BodyLimit, o.IdleTimeout = 16<<20, apitest.Bound
	})
	asked := `{"model":"demo","input":[{"role":"user","content":"` + strings.Repeat("y", 300<<10) +
		`"}],"instructions":"` + strings.Repeat("x", size) + `"}`
	var path, want string
	apitest.Await(t, apitest.Tick(t), func() bool { // on a busy machine it takes longer to store than it may
		path = "/v1/responses/" + r.Whole(t, asked).ID
		resp := r.Do(t, http.MethodGet, path, "")
		want = apitest.Text(t, resp)
		return resp.StatusCode == http.StatusOK
	})
	require.Greater(t, len(want), size)
	require.Contains(t, apitest.Text(t, r.Do(t, http.MethodGet, path+"/input_items", "")), strings.Repeat("y", 300<<10))
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Memory.Bytes() == 0 })

	var conns []net.Conn
	for range clients {
		conns = append(conns, r.Unread(t, path))
	}
	for _, conn := range conns {
		head := make([]byte, len("HTTP/1.1 200"))
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(apitest.Bound)))
		_, err := io.ReadFull(conn, head)
		require.NoError(t, err)
		assert.Equal(t, "HTTP/1.1 200", string(head))
	}
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Memory.Bytes() <= clients*(320<<10) })
	assert.NotEqual(t, "0", apitest.Metric(t, r, "codex_request_memory_bytes"))
	assert.Equal(t, want, apitest.Text(t, r.Do(t, http.MethodGet, path, "")))
	all, err := io.ReadAll(conns[0])
	require.NoError(t, err)
	assert.True(t, strings.HasSuffix(string(all), want), "a client that was slow gets it whole, too")
	for _, conn := range conns {
		conn.Close()
	}
	apitest.Await(t, apitest.Tick(t), func() bool { return r.Memory.Bytes() == 0 })
}

// What is larger than a request may hold is read in parts; where there is no memory at
// all, nothing is sent.
func TestAnswersWithLittleMemory(t *testing.T) {
	worker, store := &appservertest.Server{Handler: appservertest.Reply("x")}, apitest.Keeping(t, 1<<30)
	r := apitest.NewRig(t, worker, store)
	id := r.Whole(t, apitest.Asked("",
		`[{"role":"user","content":"`+strings.Repeat("y", 1000<<10)+`"},{"role":"user","content":"z"}]`)).ID
	path := "/v1/responses/" + id + "/input_items"
	want := apitest.Text(t, r.Do(t, http.MethodGet, path, ""))
	small := apitest.NewRig(t, nil, store, func(o *apitest.Options) { o.RequestMemory, o.QueueTimeout = 3<<20, 30*time.Millisecond })
	assert.Equal(t, want, apitest.Text(t, small.Do(t, http.MethodGet, path, "")))
	apitest.Await(t, apitest.Tick(t), func() bool { return small.Memory.Bytes() == 0 })
	defer apitest.Fill(t, small.Memory).Release()
	resp := small.Do(t, http.MethodGet, path, "")
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, "overloaded", apitest.Failure(t, apitest.Text(t, resp)).Error.Code)
}
