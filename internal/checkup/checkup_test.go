package checkup

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

// Rooms bring their checks in any order: the report has them by stage, and those of one stage as they were brought.
func TestReportIsByStage(t *testing.T) {
	check := func(name string, stage Stage) Check {
		return Check{Name: name, Stage: stage, Run: func(context.Context) []Finding { return Passed("", "").Alone() }}
	}
	r := Examine(t.Context(), []Check{check("d", Machine), check("b", Programs), check("a", Ground), check("c", Programs)})
	var names []string
	for _, f := range r.Findings {
		names = append(names, f.Check)
	}
	assert.Equal(t, []string{"a", "b", "c", "d"}, names)
}

// A check that ends with its context has Limit for its work.
func TestChecksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Examine(t.Context(), []Check{{Name: "slow", Run: func(ctx context.Context) []Finding {
			<-ctx.Done()
			return Failure("", ctx.Err().Error(), "").Alone()
		}}})
		assert.Equal(t, "context deadline exceeded", r.Findings[0].Detail)
	})
}
