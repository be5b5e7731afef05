//go:build !faultinject

package fault

// Point is where the loop called name can be stopped.
func Point(string) {}
