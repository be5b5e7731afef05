package runner

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestQueueIsFair(t *testing.T) {
	var q queue
	for n := 1; n <= 3; n++ {
		q.push(1, key{"a", n})
	}
	q.push(2, key{"b", 1})
	q.push(3, key{"c", 1})
	running := map[uint32]int{3: 1}
	assert.Equal(t, []key{{"a", 1}, {"b", 1}, {"c", 1}, {"a", 2}, {"a", 3}}, q.order(running))
	var got []key
	for k, ok := q.pop(running, each); ok; k, ok = q.pop(running, each) {
		got = append(got, k)
	}
	assert.Equal(t, []key{{"a", 1}, {"b", 1}, {"a", 2}, {"a", 3}, {"c", 1}}, got, "the user 3 has one running already")
}

func TestQueueSkips(t *testing.T) {
	var q queue
	for _, session := range []string{"a", "b"} {
		q.push(1, key{session, 1})
	}
	q.push(2, key{"c", 1})
	may := func(k key) bool { return k.session != "a" }
	for _, want := range []string{"b", "c"} {
		k, ok := q.pop(nil, may)
		assert.True(t, ok)
		assert.Equal(t, want, k.session)
	}
	_, ok := q.pop(nil, may)
	assert.False(t, ok)
	k, ok := q.pop(nil, each)
	assert.True(t, ok)
	assert.Equal(t, "a", k.session)
}

func TestQueueRemoves(t *testing.T) {
	var q queue
	q.push(1, key{"a", 1})
	q.push(2, key{"b", 1})
	q.remove(1, key{"a", 1})
	q.remove(1, key{"a", 1})
	q.remove(3, key{"c", 1})
	k, ok := q.pop(nil, each)
	assert.True(t, ok)
	assert.Equal(t, key{"b", 1}, k)
	_, ok = q.pop(nil, each)
	assert.False(t, ok)
}

// Whatever the users do: each command comes once, those of a user in their order, and nobody who waits has more running
// than the one who starts.
func TestQueueProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var q queue
		running, waiting, next := map[uint32]int{}, map[uint32]int{}, map[uint32]int{}
		pushed, popped := 0, 0
		for range 60 {
			user := uint32(random.IntN(4))
			if random.IntN(2) == 0 {
				waiting[user]++
				pushed++
				q.push(user, key{strconv.Itoa(int(user)), next[user] + waiting[user]})
				continue
			}
			k, ok := q.pop(running, each)
			if !ok {
				continue
			}
			popped++
			n, _ := strconv.Atoi(k.session)
			starts := uint32(n)
			next[starts]++
			assert.Equal(t, next[starts], k.number)
			for user, count := range waiting {
				assert.False(t, count > 0 && running[user] < running[starts], "user %d waits", user)
			}
			waiting[starts]--
			running[starts]++
		}
		assert.Len(t, q.order(running), pushed-popped)
	}
}
