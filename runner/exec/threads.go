package exec

import (
	"runtime"
	"sync"
)

// spareCount is how many threads this program has beyond those that it uses, when its command starts.
const spareCount = 8

// spareThreads makes threads for later. A command that takes all tasks of its unit (TasksMax=) leaves none for this
// program, which shares the limit, and Go's runtime ends a program that cannot make a thread. It keeps threads without
// work, and takes one of them before it makes another one.
var spareThreads = sync.OnceFunc(func() { makeThreads(spareCount) })

func makeThreads(n int) {
	var made, ended sync.WaitGroup
	release := make(chan struct{})
	made.Add(n)
	for range n {
		ended.Go(func() {
			runtime.LockOSThread() // a goroutine with a thread of its own for as long as it waits
			defer runtime.UnlockOSThread()
			made.Done()
			<-release
		})
	}
	made.Wait()
	close(release)
	ended.Wait()
}
