// Command sum adds by another module. It imports no package of Go itself, of which a new session compiles all.
package main

import "example.org/add"

func main() { println("the sum is", add.Two(2, 3)) }
