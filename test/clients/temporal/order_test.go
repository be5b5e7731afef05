package clients

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// order is a workflow of four activities with timers between and beside them. Its result
// has their names in their order.
func order(ctx workflow.Context) ([]string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: bound,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 1},
	})
	var done []string
	step := func(a workflow.Future) error {
		var name string
		err := a.Get(ctx, &name)
		done = append(done, name)
		return err
	}
	var s *shop
	if err := step(workflow.ExecuteActivity(ctx, s.Reserve)); err != nil {
		return nil, err
	}
	if err := workflow.Sleep(ctx, 50*time.Millisecond); err != nil {
		return nil, err
	}
	dispute := workflow.NewTimer(ctx, time.Second) // is pending while the server is killed
	if err := step(workflow.ExecuteActivity(ctx, s.Charge)); err != nil {
		return nil, err
	}
	if err := dispute.Get(ctx, nil); err != nil {
		return nil, err
	}
	if err := step(workflow.ExecuteActivity(ctx, s.Ship)); err != nil {
		return nil, err
	}
	if err := workflow.Sleep(ctx, 50*time.Millisecond); err != nil {
		return nil, err
	}
	return done, step(workflow.ExecuteActivity(ctx, s.Confirm))
}

// shop has the activities of orders. Charge waits until open is closed.
type shop struct {
	charging chan string // the order of each Charge that began
	open     chan struct{}

	mu   sync.Mutex
	runs map[string]int // how often each activity of an order began, by "ORDER ACTIVITY"
}

func newShop(orders int) *shop {
	return &shop{charging: make(chan string, orders), open: make(chan struct{}), runs: map[string]int{}}
}

func (s *shop) Reserve(ctx context.Context) (string, error) { return s.begin(ctx, "reserve"), nil }

func (s *shop) Charge(ctx context.Context) (string, error) {
	name := s.begin(ctx, "charge")
	s.charging <- activity.GetInfo(ctx).WorkflowExecution.ID
	select {
	case <-s.open:
		return name, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (s *shop) Ship(ctx context.Context) (string, error) { return s.begin(ctx, "ship"), nil }

func (s *shop) Confirm(ctx context.Context) (string, error) { return s.begin(ctx, "confirm"), nil }

func (s *shop) begin(ctx context.Context, name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[activity.GetInfo(ctx).WorkflowExecution.ID+" "+name]++
	return name
}
