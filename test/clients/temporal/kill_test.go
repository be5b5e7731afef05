package clients

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
)

// orders is how many workflows run at the time of the kill.
const orders = 5

// The workflows that were started before a kill of the server are there after it, and
// complete: those in the middle of an activity and a timer, and one that no worker has.
func TestKill(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	c, s := dial(t), newShop(orders+1)
	work(t, c, s, "orders")
	var runs []client.WorkflowRun
	for n := range orders {
		runs = append(runs, start(ctx, t, c, "orders", n))
	}
	for range orders {
		select {
		case <-s.charging:
		case <-ctx.Done():
			require.NoError(t, ctx.Err(), "the orders were not charged")
		}
	}
	runs = append(runs, start(ctx, t, c, "waiting", orders))

	killed := time.Now()
	kill(ctx, t)
	for _, run := range runs {
		d, err := c.DescribeWorkflowExecution(ctx, run.GetID(), "")
		require.NoError(t, err)
		info := d.GetWorkflowExecutionInfo()
		assert.Equal(t, run.GetRunID(), info.GetExecution().GetRunId())
		assert.Equal(t, enums.WORKFLOW_EXECUTION_STATUS_RUNNING, info.GetStatus())
		assert.True(t, info.GetStartTime().AsTime().Before(killed))
	}
	t.Logf("%d workflows are there %s after the kill", len(runs), time.Since(killed))

	close(s.open)
	work(t, c, s, "waiting")
	for _, run := range runs {
		var done []string
		require.NoError(t, run.Get(ctx, &done))
		assert.Equal(t, []string{"reserve", "charge", "ship", "confirm"}, done)
	}
	t.Logf("and complete %s after it", time.Since(killed))
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Logf("activities began: %v", s.runs)
	for n := range orders {
		assert.Equal(t, 1, s.runs[name(n)+" reserve"], "what was done before the kill is not done again")
	}
}

func name(n int) string { return fmt.Sprintf("order-%d", n) }

func start(ctx context.Context, t *testing.T, c client.Client, queue string, n int) client.WorkflowRun {
	t.Helper()
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: name(n), TaskQueue: queue}, order)
	require.NoError(t, err)
	return run
}

// work starts a worker of a queue.
func work(t *testing.T, c client.Client, s *shop, queue string) {
	t.Helper()
	w := worker.New(c, queue, worker.Options{WorkerStopTimeout: time.Second})
	w.RegisterWorkflow(order)
	w.RegisterActivity(s)
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
}
