package queue

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestQueueIsFair(t *testing.T) {
	var q order
	for n := 1; n <= 3; n++ {
		q.push(1, Key{"a", n})
	}
	q.push(2, Key{"b", 1})
	q.push(3, Key{"c", 1})
	running := map[uint32]int{3: 1}
	assert.Equal(t, []Key{{"a", 1}, {"b", 1}, {"c", 1}, {"a", 2}, {"a", 3}}, q.all(running))
	var got []Key
	for k, ok := q.pop(running, each); ok; k, ok = q.pop(running, each) {
		got = append(got, k)
	}
	assert.Equal(t, []Key{{"a", 1}, {"b", 1}, {"a", 2}, {"a", 3}, {"c", 1}}, got, "the user 3 has one running already")
}

func TestQueueSkips(t *testing.T) {
	var q order
	for _, session := range []string{"a", "b"} {
		q.push(1, Key{session, 1})
	}
	q.push(2, Key{"c", 1})
	may := func(k Key) bool { return k.Session != "a" }
	for _, want := range []string{"b", "c"} {
		k, ok := q.pop(nil, may)
		assert.True(t, ok)
		assert.Equal(t, want, k.Session)
	}
	_, ok := q.pop(nil, may)
	assert.False(t, ok)
	k, ok := q.pop(nil, each)
	assert.True(t, ok)
	assert.Equal(t, "a", k.Session)
}

func TestQueueRemoves(t *testing.T) {
	var q order
	q.push(1, Key{"a", 1})
	q.push(2, Key{"b", 1})
	q.remove(1, Key{"a", 1})
	q.remove(1, Key{"a", 1})
	q.remove(3, Key{"c", 1})
	k, ok := q.pop(nil, each)
	assert.True(t, ok)
	assert.Equal(t, Key{"b", 1}, k)
	_, ok = q.pop(nil, each)
	assert.False(t, ok)
}

// Whatever the users do: each command comes once, those of a user in their order, and nobody who waits has more running
// than the one who starts.
func TestQueueProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var q order
		running, waiting, next := map[uint32]int{}, map[uint32]int{}, map[uint32]int{}
		pushed, popped := 0, 0
		for range 60 {
			user := uint32(random.IntN(4))
			if random.IntN(2) == 0 {
				waiting[user]++
				pushed++
				q.push(user, Key{strconv.Itoa(int(user)), next[user] + waiting[user]})
				continue
			}
			k, ok := q.pop(running, each)
			if !ok {
				continue
			}
			popped++
			n, _ := strconv.Atoi(k.Session)
			starts := uint32(n)
			next[starts]++
			assert.Equal(t, next[starts], k.Number)
			for user, count := range waiting {
				assert.False(t, count > 0 && running[user] < running[starts], "user %d waits", user)
			}
			waiting[starts]--
			running[starts]++
		}
		assert.Len(t, q.all(running), pushed-popped)
	}
}
