package proxy

func finish(r runner, name string) {
	r.run(name)
	told := name
	_ = (&Server{}).api(nil)
	_ = told
}
