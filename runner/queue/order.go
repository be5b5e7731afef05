package queue

import "slices"

// order has the commands that may start, and is fair between users: the next command is of the user with the fewest
// running commands, or of these, of the one that waits longest for a turn. Within a user the order is by push.
type order struct {
	users []uint32 // that have a command here, in the order of their turns
	of    map[uint32][]Key
}

func (o *order) push(user uint32, k Key) {
	if o.of == nil {
		o.of = map[uint32][]Key{}
	}
	if len(o.of[user]) == 0 {
		o.users = append(o.users, user)
	}
	o.of[user] = append(o.of[user], k)
}

// pop takes the next command of those that may start. running counts the commands of each user that run.
func (o *order) pop(running map[uint32]int, may func(Key) bool) (Key, bool) {
	best, at := -1, 0
	for i, user := range o.users {
		n := slices.IndexFunc(o.of[user], may)
		if n >= 0 && (best < 0 || running[user] < running[o.users[best]]) {
			best, at = i, n
		}
	}
	if best < 0 {
		return Key{}, false
	}
	user := o.users[best]
	k := o.of[user][at]
	o.of[user] = slices.Delete(o.of[user], at, at+1)
	o.leave(user)
	if len(o.of[user]) > 0 {
		o.users = append(o.users, user)
	}
	return k, true
}

func (o *order) leave(user uint32) {
	o.users = slices.DeleteFunc(o.users, func(u uint32) bool { return u == user })
}

// remove takes a command out of the order, if it is there.
func (o *order) remove(user uint32, k Key) {
	o.of[user] = slices.DeleteFunc(o.of[user], func(other Key) bool { return other == k })
	if len(o.of[user]) == 0 {
		o.leave(user)
	}
}

// all returns all commands in the order in which they would start if no user adds one.
func (o *order) all(running map[uint32]int) []Key {
	rest := order{users: slices.Clone(o.users), of: map[uint32][]Key{}}
	counts := map[uint32]int{}
	for user, keys := range o.of {
		rest.of[user], counts[user] = slices.Clone(keys), running[user]
	}
	owner := map[Key]uint32{}
	for user, keys := range o.of {
		for _, k := range keys {
			owner[k] = user
		}
	}
	var all []Key
	for k, ok := rest.pop(counts, each); ok; k, ok = rest.pop(counts, each) {
		counts[owner[k]]++
		all = append(all, k)
	}
	return all
}

// each allows all commands.
func each(Key) bool { return true }
