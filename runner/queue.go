package runner

import "slices"

// key names a command.
type key struct {
	session string
	number  int
}

// queue has the commands that may start, and is fair between users: the next command is of the user with the fewest
// running commands, or of these, of the one that waits longest for a turn. Within a user the order is by Push.
type queue struct {
	users []uint32 // that have a command here, in the order of their turns
	of    map[uint32][]key
}

func (q *queue) push(user uint32, k key) {
	if q.of == nil {
		q.of = map[uint32][]key{}
	}
	if len(q.of[user]) == 0 {
		q.users = append(q.users, user)
	}
	q.of[user] = append(q.of[user], k)
}

// pop takes the next command of those that may start. running counts the commands of each user that run.
func (q *queue) pop(running map[uint32]int, may func(key) bool) (key, bool) {
	best, at := -1, 0
	for i, user := range q.users {
		n := slices.IndexFunc(q.of[user], may)
		if n >= 0 && (best < 0 || running[user] < running[q.users[best]]) {
			best, at = i, n
		}
	}
	if best < 0 {
		return key{}, false
	}
	user := q.users[best]
	k := q.of[user][at]
	q.of[user] = slices.Delete(q.of[user], at, at+1)
	q.leave(user)
	if len(q.of[user]) > 0 {
		q.users = append(q.users, user)
	}
	return k, true
}

func (q *queue) leave(user uint32) {
	q.users = slices.DeleteFunc(q.users, func(u uint32) bool { return u == user })
}

// remove takes a command out of the queue, if it is there.
func (q *queue) remove(user uint32, k key) {
	q.of[user] = slices.DeleteFunc(q.of[user], func(other key) bool { return other == k })
	if len(q.of[user]) == 0 {
		q.leave(user)
	}
}

// order returns all commands in the order in which they would start if no user adds one.
func (q *queue) order(running map[uint32]int) []key {
	rest := queue{users: slices.Clone(q.users), of: map[uint32][]key{}}
	counts := map[uint32]int{}
	for user, keys := range q.of {
		rest.of[user], counts[user] = slices.Clone(keys), running[user]
	}
	owner := map[key]uint32{}
	for user, keys := range q.of {
		for _, k := range keys {
			owner[k] = user
		}
	}
	var all []key
	for k, ok := rest.pop(counts, each); ok; k, ok = rest.pop(counts, each) {
		counts[owner[k]]++
		all = append(all, k)
	}
	return all
}

// each allows all commands.
func each(key) bool { return true }
